export const base58Alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

/**
 * Bytes as one big-endian number in base 58 (Bitcoin alphabet), padded with `1` to `minLength` characters.
 * 32 bytes need at most 44 characters; 95 % of them need 44 or 43, so padding to 43 leaves two lengths.
 */
export function encodeBase58(bytes: Uint8Array, minLength: number): string {
  let limbs = Array.from(bytes);
  let text = '';
  while (limbs.length > 0) {
    let remainder = 0;
    const quotient: number[] = [];
    for (const limb of limbs) {
      const dividend = remainder * 256 + limb;
      const digit = Math.floor(dividend / 58);
      remainder = dividend % 58;
      if (quotient.length > 0 || digit > 0) quotient.push(digit);
    }
    text = base58Alphabet.charAt(remainder) + text;
    limbs = quotient;
  }
  return text.padStart(minLength, '1');
}

/** The Luhn check of ISO/IEC 7812-1 on a text of digits. */
export function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let index = 0; index < digits.length; index += 1) {
    let digit = digits.charCodeAt(digits.length - 1 - index) - 48;
    if (index % 2 === 1) digit = digit > 4 ? digit * 2 - 9 : digit * 2;
    sum += digit;
  }
  return sum % 10 === 0;
}

/** The checksum of an ABA routing number: weights 3, 7, 1 on nine digits. */
export function passesAbaChecksum(digits: string): boolean {
  const weights = [3, 7, 1];
  const sum = [...digits].reduce(
    (total, digit, index) => total + Number(digit) * (weights[index % 3] ?? 0),
    0,
  );
  return sum % 10 === 0;
}

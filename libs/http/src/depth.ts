import { ValidationError } from '@token-vault/contracts';

/** No client needs deeper nesting, and it would exhaust the stack of JSON.stringify. */
const maxDepth = 100;
/** After so many bytes of a text its end is searched by native code, which takes a fraction of the time. */
const longText = 256;

const code = {
  quote: 0x22,
  backslash: 0x5c,
  bracket: 0x5b,
  closingBracket: 0x5d,
  brace: 0x7b,
  closingBrace: 0x7d,
} as const;

/**
 * Checks the depth in the bytes: walking through the parsed value takes as long as parsing it (40 ms for 80,000 names). All structural
 * characters of JSON are ASCII, and ASCII bytes are never part of a longer character in UTF-8.
 */
export function refuseDepth(bytes: Buffer): void {
  const texts = new Texts(bytes);
  let depth = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === code.quote) at = texts.endOf(at);
    else if (byte === code.closingBracket || byte === code.closingBrace) depth -= 1;
    else if ((byte === code.bracket || byte === code.brace) && ++depth > maxDepth + 1)
      throw ValidationError.of('body', `must not be nested deeper than ${maxDepth} levels`);
  }
}

/** Finds where the texts of a body end. */
class Texts {
  readonly #bytes: Buffer;
  /** The first backslash after the text that was searched last. */
  #backslash = -1;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** The place of the closing quote, or beyond the end of the body. @param opening the place of the opening quote */
  endOf(opening: number): number {
    const { length } = this.#bytes;
    const near = this.#search(opening + 1, Math.min(opening + longText, length));
    if (this.#bytes[near] === code.quote || near >= length) return near;
    const quote = this.#indexOf(code.quote, near);
    if (this.#backslash < near) this.#backslash = this.#indexOf(code.backslash, near);
    return quote < this.#backslash ? quote : this.#search(near, length);
  }

  #indexOf(byte: number, from: number): number {
    const at = this.#bytes.indexOf(byte, from);
    return at < 0 ? this.#bytes.length : at;
  }

  /** The place of the closing quote, or the first place at `end` or after it that is not escaped. */
  #search(from: number, end: number): number {
    let at = from;
    for (; at < end && this.#bytes[at] !== code.quote; at += 1)
      if (this.#bytes[at] === code.backslash) at += 1;
    return at;
  }
}

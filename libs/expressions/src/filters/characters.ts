const surrogate = /[\ud800-\udfff]/;

/** The characters of a text by code point: masking by UTF-16 unit would cut an emoji or a rare ideograph in half. */
export function codePoints(text: string): readonly string[] {
  return surrogate.test(text) ? Array.from(text) : text.split('');
}

/** True when every character is one UTF-16 unit, so that `slice` and `length` count characters. */
export function isSingleUnit(text: string): boolean {
  return !surrogate.test(text);
}

import { booleanArgument, characterArgument, charactersArgument, textValue } from './arguments.ts';
import { codePoints } from './characters.ts';
import { FilterValueError, type RandomInt, type VaultFilter } from './filter.ts';

const separators: ReadonlySet<string> = new Set([' ', '-']);

/** Identification numbers have 8 digits on cards of 16 digits and more, and 6 on shorter ones (rules.md §4). */
function binLength(digits: number): number {
  return digits < 16 ? 6 : 8;
}

function isDigit(character: string): boolean {
  return character >= '0' && character <= '9';
}

/** Whether a digit of a card number is shown, by the digit's ordinal. */
function revealedDigits(count: number, bin: boolean, last4: boolean): (ordinal: number) => boolean {
  const binEnd = bin ? binLength(count) : 0;
  const last4Start = last4 ? count - 4 : count;
  return (ordinal) => ordinal < binEnd || ordinal >= last4Start;
}

/** ISO/IEC 7812-1: whether the check digit is correct. */
function isLuhnValid(digits: readonly string[]): boolean {
  const sum = digits.toReversed().reduce((total, digit, index) => {
    const doubled = index % 2 === 0 ? Number(digit) : Number(digit) * 2;
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}

function drawDigits(original: readonly string[], open: readonly number[], random: RandomInt): string[] {
  const digits = [...original];
  for (const index of open) digits[index] = String(random(10));
  const isRefused = (candidate: readonly string[]) =>
    isLuhnValid(candidate) || candidate.every((digit, index) => digit === original[index]);
  if (!isRefused(digits)) return digits;
  // Of the ten values of a digit, one passes the check and at most one restores the original: eight remain.
  const last = open[open.length - 1] ?? 0;
  const allowed = Array.from({ length: 10 }, (_, digit) => digits.with(last, String(digit))).filter(
    (candidate) => !isRefused(candidate),
  );
  return allowed[random(allowed.length)] ?? digits;
}

/**
 * A random alias in the format of the card number: digits are drawn, spaces and dashes stay. The alias never passes the Luhn check, so it
 * cannot be mistaken for a card number (PCI DSS Tokenization Guidelines: tokens must be distinguishable from card numbers). It is never
 * equal to the original number.
 */
export const aliasCard: VaultFilter = {
  name: 'alias_card',
  maxArguments: 2,
  bind([bin, last4]) {
    const showBin = booleanArgument(bin, 'reveal_bin', false);
    const showLast4 = booleanArgument(last4, 'reveal_last4', false);
    return (value, random) => {
      if (value === null) return null;
      const characters = codePoints(textValue(value));
      if (characters.some((character) => !isDigit(character) && !separators.has(character)))
        throw new FilterValueError('needs a card number of digits, spaces and dashes');
      const original = characters.filter(isDigit);
      const isRevealed = revealedDigits(original.length, showBin, showLast4);
      const open = [...original.keys()].filter((ordinal) => !isRevealed(ordinal));
      if (open.length === 0) throw new FilterValueError('needs a card number longer than what it reveals');
      const drawn = drawDigits(original, open, random);
      let ordinal = 0;
      return characters
        .map((character) => (isDigit(character) ? (drawn[ordinal++] ?? '') : character))
        .join('');
    };
  },
};

/** Masks a card number. On request its BIN and its last four digits stay visible, with the separators inside them. */
export const cardMask: VaultFilter = {
  name: 'card_mask',
  maxArguments: 4,
  bind([bin, last4, mask, preserve]) {
    const showBin = booleanArgument(bin, 'reveal_bin', false);
    const showLast4 = booleanArgument(last4, 'reveal_last4', false);
    const maskChar = characterArgument(mask, 'mask_char', 'X');
    const preserved = charactersArgument(preserve, 'preserve_char');
    const isSeparator = (character: string) => separators.has(character) || preserved.has(character);
    return (value) => {
      if (value === null) return null;
      const characters = codePoints(textValue(value));
      const count = characters.filter((character) => !isSeparator(character)).length;
      const binEnd = showBin ? binLength(count) : 0;
      const last4Start = showLast4 ? count - 4 : count;
      if (binEnd >= last4Start) return maskChar.repeat(characters.length);
      let ordinal = 0;
      const masked = characters
        .map((character) => {
          const isOwn = !isSeparator(character);
          const isShown = ordinal < binEnd || (isOwn ? ordinal >= last4Start : ordinal > last4Start);
          if (isOwn) ordinal += 1;
          return isShown || preserved.has(character) ? character : maskChar;
        })
        .join('');
      return masked === characters.join('') ? maskChar.repeat(characters.length) : masked;
    };
  },
};

/** The leading 6 or 8 digits, with any separators removed. Too few digits for a BIN are an error; the whole value is never shown. */
export const cardBin: VaultFilter = {
  name: 'card_bin',
  maxArguments: 1,
  bind([separator]) {
    const removed = charactersArgument(separator, 'separator_char');
    return (value) => {
      if (value === null) return null;
      const characters = codePoints(textValue(value)).filter(
        (character) => !separators.has(character) && !removed.has(character),
      );
      const length = binLength(characters.length);
      if (characters.length <= length || !characters.every(isDigit))
        throw new FilterValueError('needs a card number');
      return characters.slice(0, length).join('');
    };
  },
};

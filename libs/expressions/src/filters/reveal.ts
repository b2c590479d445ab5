import { characterArgument, charactersArgument, lengthArgument, textValue } from './arguments.ts';
import { codePoints, isSingleUnit } from './characters.ts';
import type { VaultFilter } from './filter.ts';

const notDash = /[^-]/gu;

/**
 * Masks all but the first and last characters. If that would hide no character (the value is too short, or only preserved characters are in
 * between), every character is masked: a mask must never show the whole value.
 */
export const reveal: VaultFilter = {
  name: 'reveal',
  maxArguments: 4,
  bind([first, last, mask, preserve]) {
    const firstLength = lengthArgument(first, 'first', 0);
    const lastLength = lengthArgument(last, 'last', 0);
    const maskChar = characterArgument(mask, 'mask_char', 'X');
    const preserved = charactersArgument(preserve, 'preserve_chars');
    return (value) => {
      if (value === null) return null;
      const text = textValue(value);
      const characters = codePoints(text);
      const end = characters.length - lastLength;
      const masked = characters
        .map((character, index) =>
          index < firstLength || index >= end || preserved.has(character) ? character : maskChar,
        )
        .join('');
      return masked === text ? maskChar.repeat(characters.length) : masked;
    };
  },
};

/** Keeps the last `length` characters and every `-`. A value that is not longer than `length` is shown unchanged. */
export const revealLast: VaultFilter = {
  name: 'reveal_last',
  maxArguments: 2,
  bind([length, mask]) {
    const keep = lengthArgument(length, 'length');
    const maskChar = characterArgument(mask, 'mask_char', 'X');
    const replacer = () => maskChar;
    return (value) => {
      if (value === null) return null;
      const text = textValue(value);
      if (isSingleUnit(text)) {
        const hidden = text.length - keep;
        return hidden <= 0 ? text : text.slice(0, hidden).replace(notDash, replacer) + text.slice(hidden);
      }
      const characters = codePoints(text);
      const hidden = characters.length - keep;
      return characters
        .map((character, index) => (index < hidden && character !== '-' ? maskChar : character))
        .join('');
    };
  },
};

export const last4: VaultFilter = {
  name: 'last4',
  maxArguments: 0,
  // Four characters are at most eight units. The text itself may be long.
  bind: () => (value) => (value === null ? null : codePoints(textValue(value).slice(-8)).slice(-4).join('')),
};

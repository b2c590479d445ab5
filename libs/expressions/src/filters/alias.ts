import { lengthArgument, textValue } from './arguments.ts';
import { codePoints } from './characters.ts';
import { FilterValueError, type RandomInt, type VaultFilter } from './filter.ts';

const letters = 'abcdefghijklmnopqrstuvwxyz';
const digits = '0123456789';
const letter = /\p{L}/u;
const digit = /\p{Nd}/u;

/**
 * Maximum number of draws that give the value itself before the alias is refused. Each is unlikely, so the limit is practically never
 * reached.
 */
const maxDraws = 16;

function randomOf(alphabet: string, random: RandomInt): string {
  return alphabet.charAt(random(alphabet.length));
}

function aliasFilter(name: string, alphabetOf: (character: string) => string | undefined): VaultFilter {
  return {
    name,
    maxArguments: 2,
    bind([first, last]) {
      const firstLength = lengthArgument(first, 'first', 0);
      const lastLength = lengthArgument(last, 'last', 0);
      return (value, random) => {
        if (value === null) return null;
        const text = textValue(value);
        const characters = codePoints(text);
        const end = characters.length - lastLength;
        for (let draw = 0; draw < maxDraws; draw += 1) {
          const alias = characters
            .map((character, index) => {
              const alphabet = index < firstLength || index >= end ? undefined : alphabetOf(character);
              return alphabet === undefined ? character : randomOf(alphabet, random);
            })
            .join('');
          if (alias !== text) return alias;
        }
        // An alias is an id that anyone may see: it must not be equal to the value.
        throw new FilterValueError('needs a value with characters left to randomize');
      };
    },
  };
}

/** Letters of any script become random lower-case letters, digits become random digits; other characters stay. */
export const aliasPreserveFormat = aliasFilter('alias_preserve_format', (character) => {
  if (letter.test(character)) return letters;
  return digit.test(character) ? digits : undefined;
});

/** Every character becomes a random lower-case letter or digit. */
export const aliasPreserveLength = aliasFilter('alias_preserve_length', () => letters + digits);

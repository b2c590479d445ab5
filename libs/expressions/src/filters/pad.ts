import { characterArgument, lengthArgument, textValue } from './arguments.ts';
import { codePoints } from './characters.ts';
import { FilterArgumentError, type VaultFilter } from './filter.ts';
import { limits } from '../limits.ts';

function padFilter(name: string, join: (text: string, padding: string) => string): VaultFilter {
  return {
    name,
    maxArguments: 2,
    bind([length, pad]) {
      const target = lengthArgument(length, 'length');
      const padChar = characterArgument(pad, 'pad_char');
      if (target > limits.padLength)
        throw new FilterArgumentError(`length must be at most ${limits.padLength}`);
      return (value) => {
        if (value === null) return null;
        const text = textValue(value);
        const missing = target - codePoints(text).length;
        return missing > 0 ? join(text, padChar.repeat(missing)) : text;
      };
    },
  };
}

export const padLeft = padFilter('pad_left', (text, padding) => padding + text);
export const padRight = padFilter('pad_right', (text, padding) => text + padding);

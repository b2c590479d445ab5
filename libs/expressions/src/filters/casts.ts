import { textValue } from './arguments.ts';
import { FilterValueError, type VaultFilter } from './filter.ts';
import type { Json } from '../json.ts';

const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const integer = /^[+-]?\d+$/;

function cast(name: string, apply: (value: Exclude<Json, null>) => Json): VaultFilter {
  return { name, maxArguments: 0, bind: () => (value) => (value === null ? null : apply(value)) };
}

/** Compact JSON; text does not change. */
export const stringify = cast('stringify', (value) =>
  typeof value === 'string' ? value : JSON.stringify(value),
);

export const toText = cast('to_string', textValue);

/** An integer that a double cannot hold, such as a 19-digit card number, is refused, not rounded. */
export const toNumber = cast('to_number', (value) => {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string') throw new FilterValueError('needs a number');
  const text = value.trim();
  const number = decimal.test(text) ? Number(text) : NaN;
  if (!Number.isFinite(number)) throw new FilterValueError('needs a number');
  if (integer.test(text) && !Number.isSafeInteger(number))
    throw new FilterValueError('needs a number that can be represented exactly');
  return number;
});

export const toBoolean = cast('to_boolean', (value) => {
  if (typeof value === 'boolean') return value;
  const text = typeof value === 'string' ? value.trim().toLowerCase() : undefined;
  if (text === 'true') return true;
  if (text === 'false') return false;
  throw new FilterValueError('needs true or false');
});

import { FilterArgumentError, FilterValueError } from './filter.ts';
import { codePoints } from './characters.ts';
import type { Json } from '../json.ts';

const wholeNumber = /^\d{1,15}$/;

/** A length: a whole number ≥ 0, also as text (`'4'`). `fallback` undefined makes the argument required. */
export function lengthArgument(value: unknown, name: string, fallback?: number): number {
  if (value === undefined || value === null) {
    if (fallback !== undefined) return fallback;
    throw new FilterArgumentError(`${name} is required`);
  }
  const number = typeof value === 'string' && wholeNumber.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < 0)
    throw new FilterArgumentError(`${name} must be a whole number, 0 or more`);
  return number;
}

export function booleanArgument(value: unknown, name: string, fallback: boolean): boolean {
  if (value === undefined || value === null) return fallback;
  if (typeof value === 'boolean') return value;
  if (value === 'true') return true;
  if (value === 'false') return false;
  throw new FilterArgumentError(`${name} must be true or false`);
}

/** Exactly one character; a digit may be given as a number. */
export function characterArgument(value: unknown, name: string, fallback?: string): string {
  if ((value === undefined || value === null) && fallback !== undefined) return fallback;
  const text = typeof value === 'number' ? String(value) : value;
  if (typeof text !== 'string' || codePoints(text).length !== 1)
    throw new FilterArgumentError(`${name} must be one character`);
  return text;
}

/** A set of characters, given as a string. */
export function charactersArgument(value: unknown, name: string): ReadonlySet<string> {
  if (value === undefined || value === null) return new Set();
  if (typeof value !== 'string') throw new FilterArgumentError(`${name} must be text`);
  return new Set(codePoints(value));
}

/** The value as text: numbers and booleans as in JSON; objects and arrays are refused. */
export function textValue(value: Exclude<Json, null>): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'object') throw new FilterValueError('needs text, a number or a boolean');
  return String(value);
}

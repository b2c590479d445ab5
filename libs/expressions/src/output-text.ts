import { toValue } from 'liquidjs';

/**
 * A value as a part of text: nothing for null, an array as its items in a row (as Liquid has it), an object as compact JSON
 * — where Liquid's JavaScript port would write `[object Object]`.
 */
export function outputText(value: unknown): string {
  const plain: unknown = toValue(value);
  if (plain === null || plain === undefined) return '';
  if (typeof plain === 'string') return plain;
  if (Array.isArray(plain)) return plain.map(outputText).join('');
  if (typeof plain === 'object') return JSON.stringify(plain);
  return typeof plain === 'number' || typeof plain === 'boolean' ? String(plain) : '';
}

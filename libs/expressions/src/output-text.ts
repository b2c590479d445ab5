import { toValue } from 'liquidjs';

/**
 * A value as a part of text: an empty text for null, the items of an array without separators (as in Liquid), an object as compact JSON,
 * where Liquid's JavaScript port would write `[object Object]`.
 */
export function outputText(value: unknown): string {
  const plain: unknown = toValue(value);
  if (plain === null || plain === undefined) return '';
  if (typeof plain === 'string') return plain;
  if (Array.isArray(plain)) return plain.map(outputText).join('');
  if (typeof plain === 'object') return JSON.stringify(plain);
  return typeof plain === 'number' || typeof plain === 'boolean' ? String(plain) : '';
}

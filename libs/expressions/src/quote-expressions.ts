import { setOwn, type Json } from './json.ts';
import { limits } from './limits.ts';
import { quotedBraces, tooManyReferences } from './reference-scanner.ts';

/**
 * A copy in which the braces of each string are quoted, so that no string has an expression. When the references of the copy are replaced,
 * each string has its old value again. Names of fields are never expressions.
 * @throws {ExpressionSyntaxError} with more `{{` than a value may have references
 */
export function quoteExpressions(value: Json): Json {
  let left: number = limits.references;
  const quoteIn = (text: string): string =>
    text.replaceAll('{{', () => {
      if (--left < 0) throw tooManyReferences();
      return quotedBraces;
    });
  const copyOf = (item: Json): Json => {
    if (typeof item === 'string') return quoteIn(item);
    if (Array.isArray(item)) return item.map(copyOf);
    if (typeof item !== 'object' || item === null) return item;
    const copy: Record<string, Json> = {};
    for (const [name, each] of Object.entries(item)) setOwn(copy, name, copyOf(each));
    return copy;
  };
  return copyOf(value);
}

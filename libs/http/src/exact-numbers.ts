import { ValidationError } from '@token-vault/contracts';

/**
 * Finds texts that may hold a number that JavaScript would change: 16 or more digits, or an exponent, where a number may begin. Nearly all
 * texts have no such number and are parsed only once.
 */
const suspicious = /(?:^|[\s:,[])-?(?:\d[\d.]{15,}|[\d.]+[eE])/;

const maxSignificantDigits = 17;

/** Whether JavaScript changes the number that was written (rules.md §1). */
export function isChanged(source: string, value: number): boolean {
  if (!Number.isFinite(value)) return true;
  const [mantissa = ''] = source.toLowerCase().split('e');
  const digits = mantissa.replaceAll(/[-.]/g, '').replace(/^0+/, '');
  if (value === 0) return digits !== '';
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return true;
  // Trailing zeros are not significant, unless they stand before the decimal point, where the value is an integer.
  return digits.replace(/0+$/, '').length > maxSignificantDigits;
}

interface Changed {
  readonly holder: unknown;
  readonly key: string;
}

type Path = readonly string[];

/** The path to the first of these places. Iterative: the body may be nested deeper than the stack allows. */
function pathOf(body: unknown, { holder, key }: Changed): Path {
  const waiting: { readonly value: unknown; readonly path: Path }[] = [{ value: body, path: [] }];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { value, path } = next;
    if (value === holder) return [...path, key];
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, child] of Object.entries(value))
      if (typeof child === 'object' && child !== null) waiting.push({ value: child, path: [...path, name] });
  }
  return [key];
}

/**
 * Parses JSON and refuses a number that JavaScript would change: the vault must give back the same data.
 * @throws SyntaxError, ValidationError that names the path of the number
 */
export function parseExactly(text: string): unknown {
  if (!suspicious.test(text)) return JSON.parse(text) as unknown;
  let changed: Changed | undefined;
  const reviver = function (
    this: unknown,
    key: string,
    value: unknown,
    context?: { readonly source?: string },
  ) {
    if (typeof value === 'number' && context?.source !== undefined && isChanged(context.source, value))
      changed ??= { holder: this, key };
    return value;
  };
  const body = JSON.parse(text, reviver) as unknown;
  if (!changed) return body;
  const path = changed.key === '' ? [] : pathOf(body, changed);
  throw ValidationError.of(
    path.join('.') || 'body',
    'has a number that would be changed: send it as a string',
  );
}

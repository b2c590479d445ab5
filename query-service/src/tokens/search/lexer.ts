import { badQuery } from './query.ts';

/** A value as written in the query. `isQuoted` distinguishes `"*"` from `*`. */
export interface Value {
  readonly text: string;
  readonly isQuoted: boolean;
}

export type Lexeme = { readonly at: number } & (
  | { readonly kind: 'open' | 'close' | 'and' | 'or' | 'not' | 'end' }
  | { readonly kind: 'term'; readonly field: string; readonly value: Value }
  | { readonly kind: 'range'; readonly field: string; readonly range: Range }
);

export interface Range {
  readonly from: Value;
  readonly isFromIncluded: boolean;
  readonly to: Value;
  readonly isToIncluded: boolean;
}

const signs = { '(': 'open', ')': 'close', '!': 'not', '-': 'not' } as const;
const words = { AND: 'and', '&&': 'and', OR: 'or', '||': 'or', NOT: 'not' } as const;

// Each pattern is anchored and has one way to match, so the time of reading is linear in the length of the query.
const space = /\s*/y;
const word = /(?:AND|OR|NOT)(?=[\s()]|$)|&&|\|\|/y;
const fieldName = /((?:\\.|[^\s:()"\\[\]{}])+):/sy;
const quoted = /"((?:\\.|[^"\\])*)"/sy;
const bare = /((?:\\.|[^\s()"\\])+)/sy;
const bareBound = /((?:\\.|[^\s()"\\\]}])+)/sy;
const to = /\s+TO\s+/y;

const unescaped = (text: string): string => text.replaceAll(/\\(.)/gs, '$1');

/** Splits a query into lexemes. The last lexeme is `end`. @throws ValidationError of `query`. */
export function readLexemes(query: string): Lexeme[] {
  let at = 0;

  function take(pattern: RegExp): string | undefined {
    pattern.lastIndex = at;
    const match = pattern.exec(query);
    if (!match) return undefined;
    at = pattern.lastIndex;
    return match[1] ?? match[0];
  }

  function takeValue(unquoted: RegExp): Value {
    const inQuotes = take(quoted);
    if (inQuotes !== undefined) return { text: unescaped(inQuotes), isQuoted: true };
    const plain = take(unquoted);
    if (plain !== undefined) return { text: unescaped(plain), isQuoted: false };
    throw badQuery(query[at] === '"' ? 'a quotation mark is not closed' : 'a value is missing', at);
  }

  function takeRange(): Range {
    const isFromIncluded = query[at++] === '[';
    take(space);
    const from = takeValue(bareBound);
    if (take(to) === undefined) throw badQuery('a range is written [from TO to]', at);
    const until = takeValue(bareBound);
    take(space);
    const closing = query[at];
    if (closing !== ']' && closing !== '}') throw badQuery('a range is not closed', at);
    at += 1;
    return { from, isFromIncluded, to: until, isToIncluded: closing === ']' };
  }

  function next(): Lexeme {
    take(space);
    const start = at;
    if (at === query.length) return { kind: 'end', at };
    const operator = take(word) as keyof typeof words | undefined;
    if (operator) return { kind: words[operator], at: start };
    const sign = query[at] as keyof typeof signs;
    if (Object.hasOwn(signs, sign)) {
      at += 1;
      return { kind: signs[sign], at: start };
    }
    const name = take(fieldName);
    if (name === undefined) throw badQuery('expected field:value', start);
    const field = unescaped(name);
    if (query[at] === '[' || query[at] === '{')
      return { kind: 'range', field, range: takeRange(), at: start };
    return { kind: 'term', field, value: takeValue(bare), at: start };
  }

  const lexemes = [next()];
  while (lexemes.at(-1)?.kind !== 'end') lexemes.push(next());
  return lexemes;
}

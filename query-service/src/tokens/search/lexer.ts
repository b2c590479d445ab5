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
  const lexer = new Lexer(query);
  const lexemes = [lexer.next()];
  while (lexemes.at(-1)?.kind !== 'end') lexemes.push(lexer.next());
  return lexemes;
}

class Lexer {
  readonly #query: string;
  /** The index of the first character that is not read yet. */
  #at = 0;

  constructor(query: string) {
    this.#query = query;
  }

  next(): Lexeme {
    this.#take(space);
    const start = this.#at;
    if (start === this.#query.length) return { kind: 'end', at: start };
    const operator = this.#take(word) as keyof typeof words | undefined;
    if (operator) return { kind: words[operator], at: start };
    const sign = this.#query[start] as keyof typeof signs;
    if (Object.hasOwn(signs, sign)) {
      this.#at += 1;
      return { kind: signs[sign], at: start };
    }
    const name = this.#take(fieldName);
    if (name === undefined) throw badQuery('expected field:value', start);
    const field = unescaped(name);
    const first = this.#query[this.#at];
    if (first === '[' || first === '{') return { kind: 'range', field, range: this.#takeRange(), at: start };
    return { kind: 'term', field, value: this.#takeValue(bare), at: start };
  }

  #takeRange(): Range {
    const isFromIncluded = this.#query[this.#at++] === '[';
    this.#take(space);
    const from = this.#takeValue(bareBound);
    if (this.#take(to) === undefined) throw badQuery('a range is written [from TO to]', this.#at);
    const until = this.#takeValue(bareBound);
    this.#take(space);
    const closing = this.#query[this.#at];
    if (closing !== ']' && closing !== '}') throw badQuery('a range is not closed', this.#at);
    this.#at += 1;
    return { from, isFromIncluded, to: until, isToIncluded: closing === ']' };
  }

  #takeValue(unquoted: RegExp): Value {
    const inQuotes = this.#take(quoted);
    if (inQuotes !== undefined) return { text: unescaped(inQuotes), isQuoted: true };
    const plain = this.#take(unquoted);
    if (plain !== undefined) return { text: unescaped(plain), isQuoted: false };
    const isOpen = this.#query[this.#at] === '"';
    throw badQuery(isOpen ? 'a quotation mark is not closed' : 'a value is missing', this.#at);
  }

  /** The text at this place that matches; undefined when the pattern does not match here. */
  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#query);
    if (!match) return undefined;
    this.#at = pattern.lastIndex;
    return match[1] ?? match[0];
  }
}

import { secret } from '@token-vault/contracts';
import { readLexemes, type Lexeme, type Value } from './lexer.ts';
import { stretchOf, stretchOfRange } from './moments.ts';
import {
  badQuery,
  momentFields,
  searchLimits,
  textFields,
  type MomentField,
  type SearchQuery,
  type TextField,
} from './query.ts';

const isTextField = (name: string): name is TextField => (textFields as readonly string[]).includes(name);
const isMomentField = (name: string): name is MomentField =>
  (momentFields as readonly string[]).includes(name);
const metadataPrefix = 'metadata.';

/**
 * Reads a query: `field:value`, quotes, ranges, AND, OR, NOT (also `!` and `-`), parentheses. NOT binds closest, then
 * AND, then OR. Terms side by side are read as Lucene does: any of the positive ones may hold, and none of the
 * negated ones. An empty query matches all tokens. @throws ValidationError of `query`.
 */
export function parseQuery(query: string): SearchQuery {
  const lexemes = readLexemes(query);
  const terms = lexemes.filter(({ kind }) => kind === 'term' || kind === 'range');
  if (terms.length > searchLimits.terms) {
    throw badQuery(`at most ${searchLimits.terms} terms`, terms[searchLimits.terms]?.at ?? 0);
  }
  return new Parser(lexemes).parse();
}

class Parser {
  readonly #lexemes: readonly Lexeme[];
  #next = 0;
  #depth = 0;

  constructor(lexemes: readonly Lexeme[]) {
    this.#lexemes = lexemes;
  }

  parse(): SearchQuery {
    if (this.#peek().kind === 'end') return { kind: 'everything' };
    const query = this.#alternatives();
    if (this.#peek().kind !== 'end') throw badQuery('a parenthesis is not opened', this.#peek().at);
    return query;
  }

  #peek(): Lexeme {
    return this.#lexemes[this.#next] as Lexeme;
  }

  #skip(kind: Lexeme['kind']): boolean {
    if (this.#peek().kind !== kind) return false;
    this.#next += 1;
    return true;
  }

  /** Terms joined by OR or by nothing. */
  #alternatives(): SearchQuery {
    const wanted: SearchQuery[] = [];
    const prohibited: SearchQuery[] = [];
    let isAfterOr = false;
    for (;;) {
      const clause = this.#conjunction();
      const isBeforeOr = this.#skip('or');
      const isProhibition = clause.kind === 'not' && !isAfterOr && !isBeforeOr;
      (isProhibition ? prohibited : wanted).push(clause);
      isAfterOr = isBeforeOr;
      if (!isAfterOr && (this.#peek().kind === 'end' || this.#peek().kind === 'close')) break;
    }
    const positive = wanted.length > 0 ? [joined('any-of', wanted)] : [];
    return joined('all-of', [...positive, ...prohibited]);
  }

  #conjunction(): SearchQuery {
    const clauses = [this.#clause()];
    while (this.#skip('and')) clauses.push(this.#clause());
    return joined('all-of', clauses);
  }

  #clause(): SearchQuery {
    const lexeme = this.#peek();
    this.#next += 1;
    switch (lexeme.kind) {
      case 'not':
        return this.#nested(lexeme.at, () => ({ kind: 'not', of: this.#clause() }));
      case 'open':
        return this.#nested(lexeme.at, () => this.#group(lexeme.at));
      case 'term':
        return term(lexeme.field, lexeme.value, lexeme.at);
      case 'range':
        return range(lexeme);
      case 'and':
      case 'or':
      case 'close':
      case 'end':
        throw badQuery('expected field:value', lexeme.at);
    }
  }

  #group(openedAt: number): SearchQuery {
    const query = this.#alternatives();
    if (!this.#skip('close')) throw badQuery('a parenthesis is not closed', openedAt);
    return query;
  }

  #nested(at: number, read: () => SearchQuery): SearchQuery {
    this.#depth += 1;
    if (this.#depth > searchLimits.depth) throw badQuery(`at most ${searchLimits.depth} levels deep`, at);
    const query = read();
    this.#depth -= 1;
    return query;
  }
}

function joined(kind: 'all-of' | 'any-of', of: readonly SearchQuery[]): SearchQuery {
  const [only] = of;
  return only && of.length === 1 ? only : { kind, of };
}

function term(field: string, value: Value, at: number): SearchQuery {
  if (field === 'data') return { kind: 'data', value: secret(value.text) };
  if (isTextField(field)) return { kind: 'text', field, value: value.text };
  if (isMomentField(field)) {
    const within = stretchOf(value);
    if (!within) throw badQuery('expected a date or a time as ISO 8601 writes it', at);
    return { kind: 'moment', field, within };
  }
  if (field.startsWith(metadataPrefix) && field.length > metadataPrefix.length) {
    return { kind: 'metadata', key: field.slice(metadataPrefix.length), value: value.text };
  }
  throw badQuery(
    `the field must be one of ${[...textFields, ...momentFields, 'metadata.<key>'].join(', ')}`,
    at,
  );
}

function range({ field, range: written, at }: Extract<Lexeme, { kind: 'range' }>): SearchQuery {
  if (!isMomentField(field)) throw badQuery(`only ${momentFields.join(' and ')} have ranges`, at);
  const within = stretchOfRange(written);
  if (!within) throw badQuery('expected dates or times as ISO 8601 writes them, or *', at);
  return { kind: 'moment', field, within };
}

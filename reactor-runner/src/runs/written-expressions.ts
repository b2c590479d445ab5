import { descriptions, type Json, type OperationId } from '@token-vault/contracts';

/** A part of a text that begins with an opening. */
interface Segment {
  readonly text: string;
  readonly at: number;
  /** Whether it ends where its output or tag ends. Otherwise none of its kind ends in the text. */
  readonly isWhole: boolean;
}

const opening = /\{[{%]/g;
const kinds = { '{{': { end: '}}', other: '{%' }, '{%': { end: '%}', other: '{{' } } as const;

/** The outputs and tags of Liquid in a text, in their order. The time is linear in the length of the text, whatever it holds. */
function* segmentsOf(text: string): Generator<Segment> {
  const openings = new RegExp(opening);
  const withoutEnd = new Set<string>();
  for (let found = openings.exec(text); found; found = openings.exec(text)) {
    const { end, other } = kinds[found[0] as keyof typeof kinds];
    const [at, inner] = [found.index, found.index + 2];
    const endsAt = withoutEnd.has(end) ? -1 : text.indexOf(end, inner);
    if (endsAt === -1) withoutEnd.add(end);
    // Without an end, the next that can end is one of the other kind.
    const nextAt = endsAt === -1 ? text.indexOf(other, inner) : endsAt + end.length;
    const next = nextAt === -1 ? text.length : nextAt;
    yield { text: text.slice(at, next), at, isWhole: endsAt !== -1 };
    openings.lastIndex = next;
  }
}

const asText = (segment: string): string => segment.replaceAll(opening, (opens) => `{{ '${opens}' }}`);

/** The text as JavaScript makes it of a literal in a source: its line ends, and its escapes of quotes. */
const asLiteral = (text: string): string => text.replaceAll(/\r\n?/g, '\n').replaceAll(/\\(["'`\\])/g, '$1');

/** The expressions in a text. Also each without what stands before its last opening, e.g. a comment with an opening. */
function expressionsIn(text: string): string[] {
  return [...segmentsOf(text)].flatMap(({ text: whole, isWhole }) =>
    isWhole ? [whole, whole.slice(whole.lastIndexOf(whole.slice(0, 2)))] : [],
  );
}

/** The operations whose answers show tokens to the code, and their tokens. */
const tokensIn: Partial<Record<OperationId, (answer: Json) => Json | undefined>> = {
  getToken: (answer) => [answer],
  listTokens: (answer) => fieldOf(answer, 'data'),
  searchTokens: (answer) => fieldOf(answer, 'data'),
};

const fieldOf = (value: Json, name: string): Json | undefined =>
  value !== null && typeof value === 'object' && !Array.isArray(value) ? value[name] : undefined;

/**
 * The expressions that the author of code wrote, in its source and its configuration. Any other text that the code passes on may come from its
 * caller, from data or from another server, so it is no expression (ADR 51).
 */
export class WrittenExpressions {
  /** Whether the code writes any `{{`. Else nothing in its templates is an expression. */
  readonly areInTemplates: boolean;
  readonly #written: ReadonlySet<string>;
  /** Descriptions of tokens that the code was shown, by field. Code may copy a token with its mask. */
  readonly #shown = new Map<string, Set<string>>();

  constructor(texts: readonly string[]) {
    this.areInTemplates = texts.some((text) => text.includes('{{'));
    this.#written = new Set(texts.flatMap((text) => [text, asLiteral(text)]).flatMap(expressionsIn));
  }

  /** Notes the descriptions of the tokens that an answer shows to the code. */
  noteShown(operation: OperationId, answer: Json): void {
    const tokens = tokensIn[operation]?.(answer);
    if (!Array.isArray(tokens)) return;
    for (const token of tokens)
      for (const field of descriptions) this.#noteTexts(field, fieldOf(token, field) ?? null);
  }

  #noteTexts(field: string, value: Json): void {
    if (typeof value === 'string' && value.search(opening) !== -1)
      this.#shown.set(field, (this.#shown.get(field) ?? new Set()).add(value));
    else if (value !== null && typeof value === 'object')
      for (const each of Object.values(value)) this.#noteTexts(field, each);
  }

  /** The text of this field of a token, with every expression that the author did not write as text. */
  inField(field: string, text: string): string {
    if (this.#shown.get(field)?.has(text)) return text;
    let quoted = '';
    let from = 0;
    for (const { text: segment, at } of segmentsOf(text)) {
      quoted += text.slice(from, at) + (this.#written.has(segment) ? segment : asText(segment));
      from = at + segment.length;
    }
    return quoted + text.slice(from);
  }
}

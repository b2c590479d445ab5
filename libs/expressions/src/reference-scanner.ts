import { ExpressionSyntaxError, type SourcePosition } from './errors.ts';
import { limits } from './limits.ts';
import { isTokenId } from './token-id.ts';

/** One `{{ … }}` of a reactor argument. */
export interface TokenReference {
  readonly id: string;
  /** `{{ token: <id> … }}`: the filters get the whole token instead of its data. */
  readonly isWhole: boolean;
  /** The text before the filters, including the prefix, when that could be an id: an id may contain a colon. */
  readonly subject?: string;
  /** The text after the first `|`, trimmed; empty without filters. */
  readonly filters: string;
  readonly position: SourcePosition;
}

export type ArgumentPart = string | TokenReference;

/** Characters of a reference: an id, spaces and filters. A text of 16 MiB is not searched to its end for one. */
const longestReference = limits.referenceFilters + 2_000;

const wholeTokenPrefix = /^token\s*:\s*/;

/** Liquid's way to write two braces that begin no reference: an output of the text `{{`. No id can contain a brace. */
export const quotedBraces = "{{ '{{' }}";
const isQuotedBraces = (content: string): boolean => /^\s*(?:'\{\{'|"\{\{")\s*$/.test(content);

/** A piece of a text: a reference with its braces, or the text between two references. */
export interface TextPart {
  readonly text: string;
  readonly isReference: boolean;
}

/**
 * Cuts a text where its references begin and end; together the parts are the text.
 * @param most the largest number of references. The text is not read beyond it, so that a text of 16 MiB cannot make millions of parts.
 * @throws {ExpressionSyntaxError} without closing `}}`, or with more references
 */
export function cutAtReferences(text: string, most: number = limits.references): readonly TextPart[] {
  const parts: TextPart[] = [];
  let at = 0;
  let count = 0;
  for (let open = text.indexOf('{{'); open >= 0; open = text.indexOf('{{', at)) {
    if (++count > most) throw tooManyReferences();
    if (open > at) parts.push({ text: text.slice(at, open), isReference: false });
    const close = findClose(text, open + 2);
    if (close === undefined)
      throw new ExpressionSyntaxError('An expression is not closed by }}.', positions(text)(open));
    at = close + 2;
    parts.push({ text: text.slice(open, at), isReference: true });
  }
  if (at < text.length) parts.push({ text: text.slice(at), isReference: false });
  return parts;
}

/**
 * Splits an argument into text and references. Liquid cannot parse it, because an id may contain nearly any character, such as `a.b-c@d:e`.
 * An id never contains `|` or a brace, so it ends at the first of these, and quotes only count after it.
 * @throws {ExpressionSyntaxError} without closing `}}`, or when there is no valid id.
 */
export function scanArgument(text: string): readonly ArgumentPart[] {
  const positionAt = positions(text);
  let at = 0;
  return cutAtReferences(text).map((part) => {
    const begin = at;
    at += part.text.length;
    if (!part.isReference) return part.text;
    const content = part.text.slice(2, -2);
    return isQuotedBraces(content) ? '{{' : toReference(content, positionAt(begin));
  });
}

export const tooManyReferences = (): ExpressionSyntaxError =>
  new ExpressionSyntaxError(
    `There must be at most ${limits.references} references to tokens.`,
    undefined,
    'args',
  );

function findClose(text: string, from: number): number | undefined {
  let hasFilters = false;
  let quote: string | undefined;
  const end = Math.min(text.length, from + longestReference);
  for (let at = from; at < end; at += 1) {
    const character = text.charAt(at);
    if (quote !== undefined) {
      if (character === quote && !isEscaped(text, at)) quote = undefined;
    } else if (hasFilters && (character === "'" || character === '"')) quote = character;
    else if (character === '|') hasFilters = true;
    else if (character === '}' && text.charAt(at + 1) === '}') return at;
  }
  return undefined;
}

/** Liquid's rule: a backslash before a quote keeps it in the text. */
function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charAt(at - 1 - backslashes) === '\\') backslashes += 1;
  return backslashes % 2 === 1;
}

function toReference(content: string, position: SourcePosition): TokenReference {
  const bar = content.indexOf('|');
  const subject = (bar < 0 ? content : content.slice(0, bar)).trim();
  const id = subject.replace(wholeTokenPrefix, '');
  const filters = bar < 0 ? '' : content.slice(bar + 1).trim();
  if (!isTokenId(id)) throw new ExpressionSyntaxError('An expression must begin with a token id.', position);
  if (bar >= 0 && filters === '')
    throw new ExpressionSyntaxError('A filter is missing after the |.', position);
  const isWhole = id !== subject;
  return { id, isWhole, filters, position, ...(isWhole && isTokenId(subject) ? { subject } : {}) };
}

/** Positions for increasing offsets, so that a long argument with many references is read once. */
function positions(text: string): (offset: number) => SourcePosition {
  let line = 1;
  let lineStart = 0;
  let feed = text.indexOf('\n');
  return (offset) => {
    while (feed >= 0 && feed < offset) {
      line += 1;
      lineStart = feed + 1;
      feed = text.indexOf('\n', lineStart);
    }
    return { line, column: offset - lineStart + 1 };
  };
}

import { ExpressionSyntaxError, type SourcePosition } from './errors.ts';
import { isTokenId } from './token-id.ts';

/** One `{{ … }}` of a reactor argument. */
export interface TokenReference {
  readonly id: string;
  /** `{{ token: <id> … }}`: the filters see the whole token instead of its data. */
  readonly isWhole: boolean;
  /** What stands before the filters, prefix included, when that could be an id itself: an id may hold a colon. */
  readonly subject?: string;
  /** What follows the first `|`, trimmed; empty without filters. */
  readonly filters: string;
  readonly position: SourcePosition;
}

export type ArgumentPart = string | TokenReference;

const wholeTokenPrefix = /^token\s*:\s*/;

/**
 * Cuts an argument into text and references. Liquid cannot parse it: an id may hold nearly any character, such as
 * `a.b-c@d:e`. An id never holds `|` or a brace, so it ends at the first of these, and quotes only count after it.
 * @throws {ExpressionSyntaxError} without closing `}}`, or when there is no valid id.
 */
export function scanArgument(text: string): readonly ArgumentPart[] {
  const parts: ArgumentPart[] = [];
  const positionAt = positions(text);
  let at = 0;
  for (let open = text.indexOf('{{'); open >= 0; open = text.indexOf('{{', at)) {
    if (open > at) parts.push(text.slice(at, open));
    const position = positionAt(open);
    const close = findClose(text, open + 2);
    if (close === undefined) throw new ExpressionSyntaxError('An expression is not closed by }}.', position);
    parts.push(toReference(text.slice(open + 2, close), position));
    at = close + 2;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

function findClose(text: string, from: number): number | undefined {
  let hasFilters = false;
  let quote: string | undefined;
  for (let at = from; at < text.length; at += 1) {
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

/** Positions for offsets that only grow, so that a long argument with many references is read once. */
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

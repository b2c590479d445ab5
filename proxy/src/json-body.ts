import { ValidationError } from '@token-vault/contracts';
import type { Turn } from '@token-vault/batching';
import { Pauses } from './pauses.ts';
import { mostOfPlace, tooLong, type Pieces, type Template } from './template.ts';

const [quote, backslash, colon] = ['"', '\\', ':'].map((character) => character.charCodeAt(0));
/** The characters that JSON allows between its parts. */
const spaces = new Set(['\t', '\n', '\r', ' '].map((character) => character.charCodeAt(0)));

/** The place of the closing quote of the string that begins at `open`, -1 without one. Reads codes: a string may have 16 MiB. */
function closeOf(text: string, open: number): number {
  for (let at = open + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === quote) return at;
    if (code === backslash) at += 1;
  }
  return -1;
}

function isName(text: string, close: number): boolean {
  let at = close + 1;
  while (spaces.has(text.charCodeAt(at))) at += 1;
  return text.charCodeAt(at) === colon;
}

function valueOf(literal: string): string {
  try {
    return JSON.parse(literal) as string;
  } catch {
    throw invalid();
  }
}

const invalid = () => ValidationError.of('body', 'is not valid JSON');
/** The usual mistake is a quote that ends the string early: `"{{ card | json: "$.number" }}"`. */
const unclosed = `holds an expression whose string ends before }}: in a string of JSON, write quotes as ' or \\"`;
const asJson = (value: unknown): string => JSON.stringify(value);
/** Within a string. */
const escaped = (text: string): string => asJson(text).slice(1, -1);
const writings = { around: escaped, value: escaped, alone: asJson };

/**
 * The strings of JSON that hold expressions become holes. All other text, above all numbers, stays as it was written. A string that is one
 * expression becomes its value in its JSON type, as in arguments of reactors (rules.md §4). Names are never expressions.
 * @throws ValidationError
 */
export async function piecesOfJson(template: Template, text: string, turn: Turn): Promise<Pieces> {
  const pieces: Pieces[number][] = [];
  const pauses = new Pauses(turn);
  let written = 0;
  let at = 0;
  for (let braces = text.indexOf('{{'); braces >= 0;) {
    const open = text.indexOf('"', at);
    if (open < 0 || braces < open)
      throw ValidationError.of('body', 'holds an expression outside of a string; write "{{ … }}"');
    const close = closeOf(text, open);
    if (close < 0) throw invalid();
    at = close + 1;
    if (pauses.isDueAt(at)) await turn.next();
    if (braces > close) continue;
    if (!isName(text, close)) {
      if (close - open > mostOfPlace) throw ValidationError.of('body', tooLong);
      const value = valueOf(text.slice(open, at));
      if (!value.includes('}}', value.indexOf('{{'))) throw ValidationError.of('body', unclosed);
      const cut = template.cut('body', value, writings);
      const [first] = cut;
      const isAlone = cut.length === 1 && typeof first === 'object';
      pieces.push(text.slice(written, open), ...(isAlone ? cut : ['"', ...cut, '"']));
      written = at;
    }
    braces = text.indexOf('{{', at);
  }
  return [...pieces, text.slice(written)];
}

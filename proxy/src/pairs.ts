import { ValidationError } from '@token-vault/contracts';
import type { Turn } from '@token-vault/batching';
import { Pauses } from './pauses.ts';
import { mostOfPlace, tooLong, type Pieces, type Template, type Writing } from './template.ts';

const doubleBraces = /(?:\{|%7b){2}/;

function decoded(text: string, field: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw ValidationError.of(field, 'is not valid percent-encoding');
  }
}

/**
 * `a=1&b=…`: a query or a form. Pairs whose value holds an expression are written again, all others stay byte for byte. Names are never
 * expressions. @throws ValidationError naming the pair
 */
export async function piecesOfPairs(
  template: Template,
  { place, text }: { readonly place: string; readonly text: string },
  write: Writing,
  turn: Turn,
): Promise<Pieces> {
  const pieces: Pieces[number][] = [];
  const pauses = new Pauses(turn);
  // Of its own, because others may search while this waits for its turn.
  const braces = new RegExp(doubleBraces, 'gi');
  let at = 0;
  for (let found = braces.exec(text); found; found = braces.exec(text)) {
    const begin = Math.max(at, text.lastIndexOf('&', found.index) + 1);
    const next = text.indexOf('&', found.index);
    const end = next < 0 ? text.length : next;
    braces.lastIndex = end;
    if (pauses.isDueAt(end)) await turn.next();
    const pair = text.slice(begin, end);
    const equals = pair.indexOf('=');
    if (equals < 0 || begin + equals > found.index) continue;
    if (pair.length > mostOfPlace) throw ValidationError.of(place, tooLong);
    const field = `${place}.${decoded(pair.slice(0, equals), place)}`;
    const value = decoded(pair.slice(equals + 1), field);
    pieces.push(
      text.slice(at, begin + equals + 1),
      ...template.cut(field, value, { around: write, value: write }),
    );
    at = end;
  }
  return [...pieces, text.slice(at)];
}

export const inQuery: Writing = (text) => encodeURIComponent(text.toWellFormed());
export const inForm: Writing = (text) => inQuery(text).replaceAll('%20', '+');

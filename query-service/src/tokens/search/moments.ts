import type { Range, Value } from './lexer.ts';
import type { Stretch } from './query.ts';

const day = /^\d{4}-\d\d-\d\d$/;
const instant = /^(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:?\d\d)?$/i;
const dayMs = 86_400_000;
/** Times are kept to the millisecond, so what comes right after one is the next millisecond. */
const instantMs = 1;

const isOpen = ({ text, isQuoted }: Value): boolean => text === '*' && !isQuoted;

/** The time a value names: a whole day (UTC) or a millisecond, which is in UTC unless it has an offset. Undefined when it is no time. */
export function stretchOf({ text }: Value): Required<Stretch> | undefined {
  const match = instant.exec(text);
  const isDay = day.test(text);
  if (!match && !isDay) return undefined;
  const from = new Date(match ? `${match[1]}${match[2] ?? 'Z'}` : text);
  // Some days are on no calendar: JavaScript takes 30 February for 2 March.
  const isReal = isDay ? isReadBack(text, from) : isReadBack(text.slice(0, 10), new Date(text.slice(0, 10)));
  if (Number.isNaN(from.getTime()) || !isReal) return undefined;
  return { from, before: new Date(from.getTime() + (isDay ? dayMs : instantMs)) };
}

const isReadBack = (text: string, date: Date): boolean =>
  !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);

/** The time a range names: with a whole day at an end, the day belongs to it or not as a whole. Undefined when an end is no time. */
export function stretchOfRange({ from, to, isFromIncluded, isToIncluded }: Range): Stretch | undefined {
  const first: Stretch | undefined = isOpen(from) ? {} : stretchOf(from);
  const last: Stretch | undefined = isOpen(to) ? {} : stretchOf(to);
  if (!first || !last) return undefined;
  const start = isFromIncluded ? first.from : first.before;
  const end = isToIncluded ? last.before : last.from;
  return { ...(start && { from: start }), ...(end && { before: end }) };
}

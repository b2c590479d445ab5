import type { Range, Value } from './lexer.ts';
import type { Stretch } from './query.ts';

const day = /^\d{4}-\d\d-\d\d$/;
const instant = /^(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:?\d\d)?$/i;
const dayMs = 86_400_000;
/** Times are stored to the millisecond, so the end of one instant is the next millisecond. */
const instantMs = 1;

const isOpen = ({ text, isQuoted }: Value): boolean => text === '*' && !isQuoted;

/**
 * The stretch of time that a value names: a whole day (UTC) or one millisecond. A time without an offset is in UTC.
 * Undefined when the value is no time.
 */
export function stretchOf({ text }: Value): Required<Stretch> | undefined {
  const match = instant.exec(text);
  const isDay = day.test(text);
  if (!match && !isDay) return undefined;
  const from = new Date(match ? `${match[1]}${match[2] ?? 'Z'}` : text);
  // JavaScript reads 30 February as 2 March, so the date is printed again and compared with the text.
  const isReal = isDay ? isReadBack(text, from) : isReadBack(text.slice(0, 10), new Date(text.slice(0, 10)));
  if (Number.isNaN(from.getTime()) || !isReal) return undefined;
  return { from, before: new Date(from.getTime() + (isDay ? dayMs : instantMs)) };
}

const isReadBack = (text: string, date: Date): boolean =>
  !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);

/**
 * The stretch of time that a range names. When an end is a whole day, the whole day is included or excluded.
 * Undefined when an end is no time.
 */
export function stretchOfRange({ from, to, isFromIncluded, isToIncluded }: Range): Stretch | undefined {
  const first: Stretch | undefined = isOpen(from) ? {} : stretchOf(from);
  const last: Stretch | undefined = isOpen(to) ? {} : stretchOf(to);
  if (!first || !last) return undefined;
  const start = isFromIncluded ? first.from : first.before;
  const end = isToIncluded ? last.before : last.from;
  return { ...(start && { from: start }), ...(end && { before: end }) };
}

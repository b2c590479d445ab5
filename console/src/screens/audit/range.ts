import type { LogInterval } from '@token-vault/contracts';

export interface Range {
  readonly from: Date;
  readonly to: Date;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
export const lengthsMs: Readonly<Record<LogInterval, number>> = {
  minute: minuteMs,
  hour: hourMs,
  day: dayMs,
};

export const ranges = [
  { value: '1h', label: 'Last hour', ms: hourMs },
  { value: '24h', label: 'Last 24 hours', ms: dayMs },
  { value: '7d', label: 'Last 7 days', ms: 7 * dayMs },
  { value: '30d', label: 'Last 30 days', ms: 30 * dayMs },
] as const;
export const defaultRange = '24h';

const timeOf = (text: string | undefined): Date | undefined => {
  const time = new Date(text ?? '');
  return Number.isNaN(time.getTime()) ? undefined : time;
};

/** The range of the address: two times, or a length of time that ends at `now`. */
export function rangeOf(values: { range?: string; from?: string; to?: string }, now: Date): Range {
  const [from, to] = [timeOf(values.from), timeOf(values.to)];
  if (from && to && from < to) return { from, to };
  const { ms } = ranges.find(({ value }) => value === (values.range || defaultRange)) ?? ranges[1];
  return { from: new Date(now.getTime() - ms), to: now };
}

/** Intervals that give a chart of about ten to four hundred bars. */
export function intervalOf({ from, to }: Range): LogInterval {
  const ms = to.getTime() - from.getTime();
  if (ms <= 6 * hourMs) return 'minute';
  return ms <= 15 * dayMs ? 'hour' : 'day';
}

/** Hours for a week, days for more, so that the columns fit beside each other. */
export function heatIntervalOf({ from, to }: Range): LogInterval {
  return to.getTime() - from.getTime() <= 7 * dayMs ? 'hour' : 'day';
}

/** The starts of all intervals that the range touches. */
export function startsOf({ from, to }: Range, interval: LogInterval): Date[] {
  const length = lengthsMs[interval];
  const first = Math.floor(from.getTime() / length) * length;
  return Array.from(
    { length: Math.ceil((to.getTime() - first) / length) },
    (_, index) => new Date(first + index * length),
  );
}

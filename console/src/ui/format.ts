const numbers = new Intl.NumberFormat('en');
const decimals = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export const formatNumber = (value: number): string => numbers.format(value);
export const formatRate = (value: number): string => (value < 100 ? decimals : numbers).format(value);

const pad = (value: number, length = 2): string => String(value).padStart(length, '0');

/** `2026-03-01 14:05:09` in UTC, which the log is in. */
export function formatTime(text: string | Date | undefined, unit: 'second' | 'minute' = 'second'): string {
  if (text === undefined) return '';
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return String(text);
  return time
    .toISOString()
    .replace('T', ' ')
    .slice(0, unit === 'second' ? 19 : 16);
}

export function formatDuration(ms: number | undefined): string {
  if (ms === undefined) return '';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${decimals.format(ms / 1000)} s`;
  const minutes = Math.round(ms / 60_000);
  return minutes < 120 ? `${minutes} min` : `${decimals.format(minutes / 60)} h`;
}

export function formatAgo(text: string | undefined, now = Date.now()): string {
  if (text === undefined) return 'never';
  const age = now - Date.parse(text);
  return age < 5000 ? 'now' : `${formatDuration(age)} ago`;
}

/** The value of an `<input type="datetime-local">`, in UTC. */
export const toInput = (time: Date): string =>
  `${time.getUTCFullYear()}-${pad(time.getUTCMonth() + 1)}-${pad(time.getUTCDate())}T${pad(time.getUTCHours())}:${pad(time.getUTCMinutes())}`;
export const fromInput = (text: string): string | undefined =>
  text === '' ? undefined : new Date(`${text}Z`).toISOString();

export const shortId = (id: string): string => (/^[0-9a-f-]{32,36}$/i.test(id) ? `${id.slice(0, 8)}…` : id);

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${formatNumber(count)} ${count === 1 ? one : many}`;

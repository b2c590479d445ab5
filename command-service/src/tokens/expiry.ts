import { ValidationError } from '@token-vault/contracts';

const american =
  /^(\d{1,2})\/(\d{1,2})\/(\d{4})(?: (\d{1,2}):(\d{2}):(\d{2}) ?(AM|PM)(?: ?(Z|[+-]\d{1,2}:\d{2}))?)?$/i;
const iso = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/i;

const two = (value: string | number): string => String(value).padStart(2, '0');

/** `-5:00` → `-05:00`. A missing offset is UTC (interface.md, Token expiration formats). */
function offsetOf(text: string | undefined): string {
  if (text === undefined || text.toUpperCase() === 'Z') return '+00:00';
  const [hours = '', minutes = ''] = text.slice(1).split(':');
  return `${text.charAt(0)}${two(hours)}:${minutes}`;
}

function fromAmerican(match: RegExpExecArray): string | undefined {
  const [, month = '', day = '', year = '', hour12, minute = '00', second = '00', half, offset] = match;
  if (hour12 !== undefined && (Number(hour12) < 1 || Number(hour12) > 12)) return undefined;
  const hour = hour12 === undefined ? 0 : (Number(hour12) % 12) + (half?.toUpperCase() === 'PM' ? 12 : 0);
  return `${year}-${two(month)}-${two(day)}T${two(hour)}:${minute}:${second}${offsetOf(offset)}`;
}

function fromIso(text: string): string {
  const [date = '', time] = text.toUpperCase().split('T');
  if (time === undefined) return `${date}T00:00:00+00:00`;
  const zone = /(Z|[+-]\d{2}:?\d{2})$/.exec(time)?.[0] ?? 'Z';
  const clock = time.slice(0, time.length - (time.endsWith(zone) ? zone.length : 0));
  const withColon = zone === 'Z' ? '+00:00' : `${zone.slice(0, 3)}:${zone.slice(-2)}`;
  return `${date}T${clock.length === 5 ? `${clock}:00` : clock}${withColon}`;
}

/** In RFC 3339 a time of day and an offset are below 24:00. Date.parse accepts more. */
const isRegular = (text: string): boolean =>
  Number(text.slice(11, 13)) < 24 && Number(text.slice(-5, -3)) < 24 && Number(text.slice(-2)) < 60;

/** Date.parse reads 31 February as 3 March, so the day is printed again and compared. */
function isRealDate(text: string): boolean {
  const time = Date.parse(text);
  const day = text.slice(0, 10);
  return !Number.isNaN(time) && new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

/**
 * The instant at which a token expires, from a format of interface.md or ISO 8601, as RFC 3339 with the given offset.
 * @throws ValidationError for field `expires_at`: not a time, or not in the future.
 */
export function parseExpiry(text: string, now: Date): string {
  const match = american.exec(text);
  const candidate = match ? fromAmerican(match) : iso.test(text) ? fromIso(text) : undefined;
  if (candidate === undefined || !isRegular(candidate) || !isRealDate(candidate)) {
    throw ValidationError.of(
      'expires_at',
      'must be a date such as 8/26/2030, 8/26/2030 7:23:57 PM -07:00 or ISO 8601',
    );
  }
  if (Date.parse(candidate) <= now.getTime())
    throw ValidationError.of('expires_at', 'must lie in the future');
  return candidate;
}

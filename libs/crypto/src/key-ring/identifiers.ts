import { randomOf } from '../random.ts';

const uuidPattern = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/;
const longestText = 1000;

/** A UUID of version 7 (RFC 9562): rows that are made one after the other are neighbours in the primary key. */
export function newKeyId(nowMs: number): string {
  const bytes = randomOf(16);
  bytes.writeUIntBE(nowMs, 0, 6);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x70;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/**
 * Checks a value before it joins a batch: a value that Postgres refuses would fail the statement for all callers.
 * @throws TypeError unless it is a lower-case UUID.
 */
export function requireUuid(value: string, name: string): void {
  if (!uuidPattern.test(value)) throw new TypeError(`${name} is not a lower-case UUID`);
}

/** @throws TypeError unless Postgres stores the text unchanged: 1–1000 characters, no NUL, no lone surrogate. */
export function requireText(value: string, name: string): void {
  const isStorable =
    value.length > 0 && value.length <= longestText && !value.includes('\0') && value.isWellFormed();
  if (!isStorable) throw new TypeError(`${name} is not a text of 1 to ${longestText} storable characters`);
}

import { Secret, type Json, type JsonInput, type SealedValue } from '@token-vault/contracts';
import { decrypt, encrypt, ivLength, tagLength } from './aead.ts';
import type { DataKey } from './data-key.ts';
import { SealBrokenError } from './errors.ts';
import { frame } from './framing.ts';

/**
 * `sv1.<key id>.<base64url of iv (12 bytes), ciphertext, tag (16 bytes)>`: AES-256-GCM over the value as JSON. The additional data binds
 * format version, key id, tenant, entity and field, so a sealed value opens in one place only. Its length shows the length of the JSON.
 */
export type { SealedValue } from '@token-vault/contracts';

/** The one place where a sealed value opens. */
export interface SealContext {
  readonly tenantId: string;
  /** e.g. `token:<id>`; the entity the data key belongs to. */
  readonly entity: string;
  /** e.g. `data`, `cvc`. */
  readonly field: string;
}

const version = 'sv1';
const bodyStart = version.length + 1 + 36 + 1;
const headPattern = /^sv1\.[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}\.$/;
const bodyPattern = /^[\w-]+$/;
const shortestBody = Math.ceil(((ivLength + tagLength + 1) * 4) / 3);

/** Whether the text has the form of a sealed value. Only `open` proves that it is one. */
export function isSealedValue(value: unknown): value is SealedValue {
  return typeof value === 'string' && hasHead(value) && bodyPattern.test(value.slice(bodyStart));
}

const hasHead = (value: string): boolean =>
  value.length >= bodyStart + shortestBody && headPattern.test(value.slice(0, bodyStart));

/** The id of the data key of a sealed value. Only `open` reads the part after it. @throws SealBrokenError without such an id */
export function keyIdOf(value: string): string {
  if (!hasHead(value)) throw new SealBrokenError();
  return value.slice(version.length + 1, bodyStart - 1);
}

function isKeyOf(key: DataKey, context: SealContext): boolean {
  return key.tenantId === context.tenantId && key.entity === context.entity;
}

function additionalData(keyId: string, context: SealContext): Buffer {
  return frame([version, keyId, context.tenantId, context.entity, context.field]);
}

/**
 * Seals a JSON value under an entity's data key.
 * @throws TypeError when the key belongs to another tenant or entity, was wiped, or the value is not JSON.
 */
export function seal(key: DataKey, context: SealContext, value: Secret<JsonInput>): SealedValue {
  if (!isKeyOf(key, context)) throw new TypeError('the data key belongs to another tenant or entity');
  const json = JSON.stringify(value.expose()) as string | undefined;
  if (json === undefined) throw new TypeError('only JSON can be sealed');
  const encrypted = encrypt(key.exposeBytes(), json, additionalData(key.id, context));
  // eslint-disable-next-line no-restricted-syntax -- This is `seal`, the only function that makes sealed values.
  return `${version}.${key.id}.${encrypted.toString('base64url')}` as SealedValue;
}

/**
 * Opens a value that `seal` made with the same key and context. Any text may be given: events and rows hold strings.
 * @throws SealBrokenError otherwise; the message contains no data.
 * @throws TypeError when the key was wiped.
 */
export function open<T extends JsonInput = Json>(
  key: DataKey,
  context: SealContext,
  value: string,
): Secret<T> {
  if (keyIdOf(value) !== key.id || !isKeyOf(key, context)) throw new SealBrokenError();
  const body = value.slice(bodyStart);
  const encrypted = Buffer.from(body, 'base64url');
  // The decoder ignores surplus bits in the last character. Only one spelling of a sealed value is accepted.
  if (encrypted.toString('base64url') !== body) throw new SealBrokenError();
  const plaintext = decrypt(key.exposeBytes(), encrypted, additionalData(key.id, context));
  try {
    return new Secret(JSON.parse(plaintext.toString('utf8')) as T);
  } finally {
    plaintext.fill(0);
  }
}

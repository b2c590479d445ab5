import type { Json } from '@token-vault/contracts';
import { decrypt, encrypt, ivLength, tagLength } from './aead.ts';
import type { DataKey } from './data-key.ts';
import { SealBrokenError } from './errors.ts';
import { frame } from './framing.ts';
import { Secret } from './secret.ts';

declare const sealed: unique symbol;

/**
 * `sv1.<key id>.<base64url of iv (12 bytes), ciphertext, tag (16 bytes)>`: AES-256-GCM over the value as JSON.
 * The additional data binds format version, key id, tenant, entity and field, so that a sealed value is good in one
 * place only. Its length tells the length of the JSON.
 */
export type SealedValue = string & { readonly [sealed]: true };

/** The one place a sealed value is good for. */
export interface SealContext {
  readonly tenantId: string;
  /** e.g. `token:<id>`; the entity the data key belongs to. */
  readonly entity: string;
  /** e.g. `data`, `cvc`. */
  readonly field: string;
}

const version = 'sv1';
const pattern = /^sv1\.([\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12})\.[\w-]+$/;
const bodyStart = version.length + 1 + 36 + 1;
const shortestBody = Math.ceil(((ivLength + tagLength + 1) * 4) / 3);

/** Whether the text has the form of a sealed value; only `open` tells whether it is one. */
export function isSealedValue(value: unknown): value is SealedValue {
  return typeof value === 'string' && value.length >= bodyStart + shortestBody && pattern.test(value);
}

/** The data key a sealed value needs. @throws SealBrokenError when it has not the form of one. */
export function keyIdOf(value: SealedValue): string {
  if (!isSealedValue(value)) throw new SealBrokenError();
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
export function seal(key: DataKey, context: SealContext, value: Secret<Json>): SealedValue {
  if (!isKeyOf(key, context)) throw new TypeError('the data key belongs to another tenant or entity');
  const json = JSON.stringify(value.expose()) as string | undefined;
  if (json === undefined) throw new TypeError('only JSON can be sealed');
  const encrypted = encrypt(key.exposeBytes(), json, additionalData(key.id, context));
  return `${version}.${key.id}.${encrypted.toString('base64url')}` as SealedValue;
}

/**
 * Opens what `seal` made with the same key and context.
 * @throws SealBrokenError for anything else; it names no data.
 * @throws TypeError when the key was wiped.
 */
export function open<T extends Json = Json>(
  key: DataKey,
  context: SealContext,
  value: SealedValue,
): Secret<T> {
  if (keyIdOf(value) !== key.id || !isKeyOf(key, context)) throw new SealBrokenError();
  const body = value.slice(bodyStart);
  const encrypted = Buffer.from(body, 'base64url');
  // Decoding forgives stray bits in the last character; a sealed value has exactly one spelling.
  if (encrypted.toString('base64url') !== body) throw new SealBrokenError();
  const plaintext = decrypt(key.exposeBytes(), encrypted, additionalData(key.id, context));
  try {
    return new Secret(JSON.parse(plaintext.toString('utf8')) as T);
  } finally {
    plaintext.fill(0);
  }
}

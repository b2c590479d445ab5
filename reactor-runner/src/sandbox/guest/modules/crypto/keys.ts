import { Buffer } from 'buffer';
import type { Internal } from '../../bridge.ts';

declare const internal: Internal;

export function toBuffer(value: unknown, encoding?: string): Buffer {
  if (typeof value === 'string') return Buffer.from(value, (encoding ?? 'utf8') as 'utf8');
  if (value instanceof KeyObject) return value.bytes();
  if (ArrayBuffer.isView(value))
    return Buffer.from(value.buffer as ArrayBuffer, value.byteOffset, value.byteLength);
  if (value instanceof ArrayBuffer) return Buffer.from(value);
  throw new TypeError('A string or binary value is needed');
}

export function base64(value: unknown, encoding?: string): string {
  return toBuffer(value, encoding).toString('base64');
}

export function hostCrypto<T>(op: string, input: object): T {
  return internal.sync('crypto', { op, ...input }) as T;
}

export interface KeyDescription {
  readonly pem: string;
  readonly der: string;
  readonly jwk: Record<string, unknown>;
  readonly keyType: string;
  readonly modulusLength?: number;
  readonly namedCurve?: string;
}

/** A key in the form of Node's `KeyObject`. Asymmetric keys are kept as PEM. */
export class KeyObject {
  readonly type: 'private' | 'public' | 'secret';
  readonly #secret: Buffer | undefined;
  readonly #description: KeyDescription | undefined;

  constructor(type: 'private' | 'public' | 'secret', value: Buffer | KeyDescription) {
    this.type = type;
    this.#secret = type === 'secret' ? (value as Buffer) : undefined;
    this.#description = type === 'secret' ? undefined : (value as KeyDescription);
  }
  get asymmetricKeyType(): string | undefined {
    return this.#description?.keyType;
  }
  get asymmetricKeyDetails(): object | undefined {
    const { modulusLength, namedCurve } = this.#description ?? {};
    return this.#description === undefined ? undefined : { modulusLength, namedCurve };
  }
  get symmetricKeySize(): number | undefined {
    return this.#secret?.length;
  }
  bytes(): Buffer {
    if (this.#secret === undefined) throw new TypeError('A secret key is needed');
    return this.#secret;
  }
  get pem(): string {
    if (this.#description === undefined) throw new TypeError('An asymmetric key is needed');
    return this.#description.pem;
  }
  export({ format = this.#secret === undefined ? 'pem' : 'buffer' }: { format?: string } = {}): unknown {
    if (this.#secret !== undefined) {
      return format === 'jwk'
        ? { kty: 'oct', k: this.#secret.toString('base64url') }
        : Buffer.from(this.#secret);
    }
    if (format === 'jwk') return this.#description?.jwk;
    return format === 'der' ? Buffer.from(this.#description?.der ?? '', 'base64') : this.pem;
  }
}

/** The forms of a key that the host accepts: PEM, or `{pem, passphrase}`, `{der, type}`, `{jwk}`. */
export function keyInput(key: unknown): unknown {
  if (key instanceof KeyObject) return key.pem;
  if (typeof key === 'string' || ArrayBuffer.isView(key)) return toBuffer(key).toString('utf8');
  const {
    key: inner,
    format,
    type,
    passphrase,
  } = key as { key: unknown; format?: string; type?: string; passphrase?: unknown };
  if (inner instanceof KeyObject) return inner.pem;
  if (format === 'jwk') return { jwk: inner };
  if (format === 'der') return { der: base64(inner), type };
  return {
    pem: toBuffer(inner).toString('utf8'),
    ...(passphrase === undefined ? {} : { passphrase: base64(passphrase) }),
  };
}

export function createPrivateKey(key: unknown): KeyObject {
  return new KeyObject('private', hostCrypto<KeyDescription>('key', { kind: 'private', key: keyInput(key) }));
}

export function createPublicKey(key: unknown): KeyObject {
  return new KeyObject('public', hostCrypto<KeyDescription>('key', { kind: 'public', key: keyInput(key) }));
}

export function createSecretKey(key: unknown, encoding?: string): KeyObject {
  return new KeyObject('secret', Buffer.from(toBuffer(key, encoding)));
}

export function generateKeyPairSync(
  type: string,
  options: Record<string, unknown> = {},
): { publicKey: unknown; privateKey: unknown } {
  const pem = hostCrypto<string>('generate', {
    type,
    modulusLength: options['modulusLength'],
    namedCurve: options['namedCurve'],
  });
  const exported = (key: KeyObject, encoding: unknown): unknown =>
    encoding === undefined ? key : key.export(encoding as { format?: string });
  return {
    publicKey: exported(createPublicKey(pem), options['publicKeyEncoding']),
    privateKey: exported(createPrivateKey(pem), options['privateKeyEncoding']),
  };
}

import { Buffer } from 'buffer';
import {
  base64,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  hostCrypto,
  keyInput,
  KeyObject,
  toBuffer,
} from './crypto-keys.ts';
import { CryptoKey, subtle } from './subtle.ts';

export { createPrivateKey, createPublicKey, createSecretKey, KeyObject };

export const constants = {
  RSA_PKCS1_PADDING: 1,
  RSA_NO_PADDING: 3,
  RSA_PKCS1_OAEP_PADDING: 4,
  RSA_PKCS1_PSS_PADDING: 6,
  RSA_PSS_SALTLEN_DIGEST: -1,
  RSA_PSS_SALTLEN_AUTO: -2,
  RSA_PSS_SALTLEN_MAX_SIGN: -2,
};

type Done = (error: Error | null, value?: unknown) => void;

/** Callback forms of Node's functions: the same result, a tick later. */
function deferred<T>(make: () => T, done?: Done): T | undefined {
  if (done === undefined) return make();
  setTimeout(() => {
    let value: T;
    try {
      value = make();
    } catch (error) {
      done(error as Error);
      return;
    }
    done(null, value);
  });
  return undefined;
}

const decoded = (text: string): Buffer => Buffer.from(text, 'base64');
const output = (value: Buffer, encoding?: string): Buffer | string =>
  encoding === undefined ? value : value.toString(encoding as 'hex');

export const randomBytes = (size: number, done?: Done) =>
  deferred(() => decoded(hostCrypto('random', { size })), done);
export const randomUUID = (): string => hostCrypto('uuid', {});
export function randomInt(first: number, second?: Done | number, third?: Done): number | undefined {
  const [min, max] = typeof second === 'number' ? [first, second] : [0, first];
  return deferred(
    () => hostCrypto<number>('int', { min, max }),
    typeof second === 'function' ? second : third,
  );
}
export function getRandomValues<T extends ArrayBufferView>(view: T): T {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  if (bytes.length > 65_536) throw new RangeError('At most 65536 bytes are given at once');
  bytes.set(decoded(hostCrypto('random', { size: bytes.length })));
  return view;
}
export const randomFillSync = getRandomValues;

/** Chunks are collected here and hashed by the host in one operation. */
class Collector {
  readonly chunks: Buffer[] = [];
  #isFinal = false;
  update(data: unknown, encoding?: string): this {
    if (this.#isFinal) throw new Error('Digest already called');
    this.chunks.push(Buffer.from(toBuffer(data, encoding)));
    return this;
  }
  protected collected(): string {
    this.#isFinal = true;
    return Buffer.concat(this.chunks).toString('base64');
  }
}

class Hash extends Collector {
  readonly #algorithm: string;
  readonly #key: string | undefined;
  constructor(algorithm: string, key?: string) {
    super();
    this.#algorithm = algorithm;
    this.#key = key;
  }
  digest(encoding?: string): Buffer | string {
    const [algorithm, key, data] = [this.#algorithm, this.#key, this.collected()];
    return output(
      decoded(hostCrypto(key === undefined ? 'hash' : 'hmac', { algorithm, key, data })),
      encoding,
    );
  }
  copy(): Hash {
    const copy = new Hash(this.#algorithm, this.#key);
    copy.chunks.push(...this.chunks);
    return copy;
  }
}

export const createHash = (algorithm: string): Hash => new Hash(algorithm);
export const createHmac = (algorithm: string, key: unknown): Hash => new Hash(algorithm, base64(key));
export const hash = (algorithm: string, data: unknown, encoding = 'hex') =>
  new Hash(algorithm).update(data).digest(encoding);
export const getHashes = (): string[] => [
  'md5',
  'sha1',
  'sha224',
  'sha256',
  'sha384',
  'sha512',
  'sha3-256',
  'sha3-512',
];
export const getCiphers = (): string[] =>
  [128, 192, 256].flatMap((bits) => ['cbc', 'ctr', 'ecb', 'gcm'].map((mode) => `aes-${bits}-${mode}`));

export function timingSafeEqual(a: ArrayBufferView, b: ArrayBufferView): boolean {
  const [left, right] = [toBuffer(a), toBuffer(b)];
  if (left.length !== right.length) throw new RangeError('Input buffers must have the same byte length');
  let difference = 0;
  for (let at = 0; at < left.length; at++) difference |= (left[at] as number) ^ (right[at] as number);
  return difference === 0;
}

/** The whole text goes through in `final`: `update` gives an empty piece. Callers that concatenate both see no difference. */
class Cipher extends Collector {
  readonly #settings: Record<string, unknown>;
  #tag: Buffer | undefined;
  constructor(
    algorithm: string,
    key: unknown,
    iv: unknown,
    isDecryption: boolean,
    options?: { authTagLength?: number },
  ) {
    super();
    const vector = iv === null ? null : base64(iv);
    this.#settings = {
      algorithm: algorithm.toLowerCase(),
      key: base64(key),
      iv: vector,
      isDecryption,
      tagLength: options?.authTagLength,
    };
  }
  override update(data: unknown, encoding?: string, outputEncoding?: string): never {
    super.update(data, encoding);
    return output(Buffer.alloc(0), outputEncoding) as never;
  }
  final(encoding?: string): Buffer | string {
    const { data, tag } = hostCrypto<{ data: string; tag?: string }>('cipher', {
      ...this.#settings,
      data: this.collected(),
    });
    if (tag !== undefined) this.#tag = decoded(tag);
    return output(decoded(data), encoding);
  }
  setAutoPadding(padding = true): this {
    this.#settings['padding'] = padding;
    return this;
  }
  setAAD(aad: unknown): this {
    this.#settings['aad'] = base64(aad);
    return this;
  }
  setAuthTag(tag: unknown): this {
    this.#settings['tag'] = base64(tag);
    return this;
  }
  getAuthTag(): Buffer {
    if (this.#tag === undefined) throw new Error('The tag is known after final()');
    return this.#tag;
  }
}

type CipherOptions = { authTagLength?: number };
export const createCipheriv = (name: string, key: unknown, iv: unknown, options?: CipherOptions) =>
  new Cipher(name, key, iv, false, options);
export const createDecipheriv = (name: string, key: unknown, iv: unknown, options?: CipherOptions) =>
  new Cipher(name, key, iv, true, options);

export function pbkdf2Sync(
  password: unknown,
  salt: unknown,
  iterations: number,
  length: number,
  algorithm: string,
): Buffer {
  return decoded(
    hostCrypto('pbkdf2', { password: base64(password), salt: base64(salt), iterations, length, algorithm }),
  );
}
export const pbkdf2 = (
  password: unknown,
  salt: unknown,
  iterations: number,
  length: number,
  algorithm: string,
  done: Done,
) => deferred(() => pbkdf2Sync(password, salt, iterations, length, algorithm), done);
export function scryptSync(
  password: unknown,
  salt: unknown,
  length: number,
  options: { N?: number; r?: number; p?: number } = {},
): Buffer {
  return decoded(
    hostCrypto('scrypt', { password: base64(password), salt: base64(salt), length, ...options }),
  );
}
export const scrypt = (
  password: unknown,
  salt: unknown,
  length: number,
  options: Done | object,
  done?: Done,
) =>
  deferred(
    () => scryptSync(password, salt, length, typeof options === 'function' ? {} : options),
    typeof options === 'function' ? (options as Done) : done,
  );
export function hkdfSync(
  algorithm: string,
  key: unknown,
  salt: unknown,
  info: unknown,
  length: number,
): ArrayBuffer {
  const input = { algorithm, key: base64(key), salt: base64(salt), info: base64(info), length };
  return new Uint8Array(decoded(hostCrypto('hkdf', input))).buffer;
}

type Algorithm = string | null | undefined;

function signatureOptions(key: unknown): object {
  const { padding, saltLength, dsaEncoding } = (typeof key === 'object' && key !== null ? key : {}) as Record<
    string,
    unknown
  >;
  return { padding, saltLength, dsaEncoding };
}
export function sign(algorithm: Algorithm, data: unknown, key: unknown): Buffer {
  return decoded(
    hostCrypto('sign', { algorithm, data: base64(data), key: keyInput(key), options: signatureOptions(key) }),
  );
}
export function verify(algorithm: Algorithm, data: unknown, key: unknown, signature: unknown): boolean {
  const input = {
    algorithm,
    data: base64(data),
    key: keyInput(key),
    signature: base64(signature),
    options: signatureOptions(key),
  };
  return hostCrypto('verify', input);
}

class Signature extends Collector {
  readonly #algorithm: string;
  constructor(algorithm: string) {
    super();
    this.#algorithm = algorithm;
  }
  end(): this {
    return this;
  }
  sign(key: unknown, encoding?: string): Buffer | string {
    return output(sign(this.#algorithm, decoded(this.collected()), key), encoding);
  }
  verify(key: unknown, signature: unknown, encoding?: string): boolean {
    return verify(this.#algorithm, decoded(this.collected()), key, toBuffer(signature, encoding));
  }
}
export const createSign = (algorithm: string): Signature => new Signature(algorithm);
export const createVerify = (algorithm: string): Signature => new Signature(algorithm);

function rsa(operation: string) {
  return (key: unknown, data: unknown): Buffer => {
    const { padding, oaepHash } = (typeof key === 'object' && key !== null ? key : {}) as Record<
      string,
      unknown
    >;
    return decoded(
      hostCrypto('rsa', {
        operation,
        key: keyInput(key),
        data: base64(data),
        options: { padding, oaepHash },
      }),
    );
  };
}
export const publicEncrypt = rsa('publicEncrypt');
export const privateDecrypt = rsa('privateDecrypt');
export const privateEncrypt = rsa('privateEncrypt');
export const publicDecrypt = rsa('publicDecrypt');

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

export const webcrypto = { getRandomValues, randomUUID, subtle };
export { CryptoKey, subtle };

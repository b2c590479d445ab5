import { Buffer } from 'buffer';
import type { KeyObject } from './keys.ts';
import { base64, createPrivateKey, createPublicKey, createSecretKey, hostCrypto, toBuffer } from './keys.ts';

interface Algorithm {
  readonly name: string;
  readonly [parameter: string]: unknown;
}

/** A key of `crypto.subtle`. */
export class CryptoKey {
  readonly type: string;
  readonly extractable: boolean;
  readonly algorithm: Algorithm;
  readonly usages: readonly string[];
  readonly #key: KeyObject;
  constructor(key: KeyObject, algorithm: Algorithm, extractable: boolean, usages: readonly string[]) {
    this.type = key.type;
    this.extractable = extractable;
    this.algorithm = algorithm;
    this.usages = [...usages];
    this.#key = key;
  }
  /** The key object of a CryptoKey, for a use that the key allows. */
  static open(key: CryptoKey, usage?: string): KeyObject {
    if (usage !== undefined && !key.usages.includes(usage))
      throw new TypeError(`The key is not usable for ${usage}`);
    return key.#key;
  }
}

const decoded = (text: string): ArrayBuffer => new Uint8Array(Buffer.from(text, 'base64')).buffer;
const named = (algorithm: Algorithm | string): Algorithm =>
  typeof algorithm === 'string' ? { name: algorithm } : algorithm;
const hashName = (value: unknown): string => named(value as Algorithm | string).name;

function signing(algorithm: Algorithm, key: CryptoKey): { algorithm: string | null; options: object } {
  const keyHash = key.algorithm['hash'];
  switch (algorithm.name.toUpperCase()) {
    case 'RSASSA-PKCS1-V1_5':
      return { algorithm: hashName(keyHash), options: { padding: 1 } };
    case 'RSA-PSS':
      return { algorithm: hashName(keyHash), options: { padding: 6, saltLength: algorithm['saltLength'] } };
    case 'ECDSA':
      return { algorithm: hashName(algorithm['hash']), options: { dsaEncoding: 'ieee-p1363' } };
    case 'ED25519':
      return { algorithm: null, options: {} };
    default:
      throw new TypeError('The algorithm is not supported');
  }
}

function cipher(algorithm: Algorithm, key: CryptoKey, data: unknown, isDecryption: boolean): ArrayBuffer {
  const secret = CryptoKey.open(key, isDecryption ? 'decrypt' : 'encrypt');
  const mode = algorithm.name.toUpperCase();
  if (mode === 'RSA-OAEP') {
    const operation = isDecryption ? 'privateDecrypt' : 'publicEncrypt';
    const options = { padding: 4, oaepHash: hashName(key.algorithm['hash']) };
    return decoded(hostCrypto('rsa', { operation, key: secret.pem, data: base64(data), options }));
  }
  const bits = (secret.symmetricKeySize ?? 0) * 8;
  if (mode === 'AES-GCM') return gcm(algorithm, secret, bits, toBuffer(data), isDecryption);
  const known = { 'AES-CBC': 'cbc', 'AES-CTR': 'ctr' }[mode];
  if (known === undefined) throw new TypeError('The algorithm is not supported');
  const iv = base64(algorithm['iv'] ?? algorithm['counter']);
  const input = {
    algorithm: `aes-${bits}-${known}`,
    key: base64(secret),
    iv,
    data: base64(data),
    isDecryption,
  };
  return decoded(hostCrypto<{ data: string }>('cipher', input).data);
}

/** Web cryptography appends the tag to the ciphertext. Node's ciphers keep it separate. */
function gcm(
  algorithm: Algorithm,
  secret: KeyObject,
  bits: number,
  bytes: Buffer,
  isDecryption: boolean,
): ArrayBuffer {
  const tagLength = Number(algorithm['tagLength'] ?? 128) / 8;
  const split = isDecryption ? bytes.length - tagLength : bytes.length;
  const aad = algorithm['additionalData'];
  const answer = hostCrypto<{ data: string; tag?: string }>('cipher', {
    algorithm: `aes-${bits}-gcm`,
    key: base64(secret),
    iv: base64(algorithm['iv']),
    data: base64(bytes.subarray(0, split)),
    isDecryption,
    tagLength,
    ...(aad === undefined ? {} : { aad: base64(aad) }),
    ...(isDecryption ? { tag: base64(bytes.subarray(split)) } : {}),
  });
  const [text, tag] = [answer.data, answer.tag ?? ''].map((part) => Buffer.from(part, 'base64'));
  return new Uint8Array(Buffer.concat([text as Buffer, tag as Buffer])).buffer;
}

function derive(algorithm: Algorithm, key: CryptoKey, length: number): ArrayBuffer {
  const common = {
    algorithm: hashName(algorithm['hash']),
    salt: base64(algorithm['salt']),
    length: length / 8,
  };
  const secret = base64(CryptoKey.open(key));
  switch (algorithm.name.toUpperCase()) {
    case 'PBKDF2':
      return decoded(
        hostCrypto('pbkdf2', { ...common, password: secret, iterations: algorithm['iterations'] }),
      );
    case 'HKDF':
      return decoded(hostCrypto('hkdf', { ...common, key: secret, info: base64(algorithm['info']) }));
    default:
      throw new TypeError('The algorithm is not supported');
  }
}

function keyFrom(format: string, data: unknown): KeyObject {
  const jwk = data as { kty?: string; k?: string; d?: string };
  if (format === 'raw') return createSecretKey(data);
  if (format === 'jwk' && jwk.kty === 'oct') return createSecretKey(Buffer.from(jwk.k ?? '', 'base64'));
  if (format === 'jwk')
    return (jwk.d === undefined ? createPublicKey : createPrivateKey)({ key: data, format: 'jwk' });
  if (format === 'pkcs8') return createPrivateKey({ key: data, format: 'der', type: 'pkcs8' });
  if (format === 'spki') return createPublicKey({ key: data, format: 'der', type: 'spki' });
  throw new TypeError('The key format is not supported');
}

function generate(algorithm: Algorithm, extractable: boolean, usages: readonly string[]): unknown {
  const name = algorithm.name.toUpperCase();
  if (name.startsWith('AES') || name === 'HMAC') {
    const bits = Number(
      algorithm['length'] ?? (hashName(algorithm['hash'] ?? 'SHA-256') === 'SHA-512' ? 1_024 : 512),
    );
    return new CryptoKey(
      createSecretKey(Buffer.from(decoded(hostCrypto('random', { size: bits / 8 })))),
      algorithm,
      extractable,
      usages,
    );
  }
  const type = name.startsWith('RSA') ? 'rsa' : name.startsWith('EC') ? 'ec' : name.toLowerCase();
  const pem = hostCrypto<string>('generate', {
    type,
    modulusLength: algorithm['modulusLength'],
    namedCurve: algorithm['namedCurve'],
  });
  const [forPublic, forPrivate] = [
    ['verify', 'encrypt'],
    ['sign', 'decrypt'],
  ].map((all) => usages.filter((usage) => all.includes(usage)));
  return {
    publicKey: new CryptoKey(createPublicKey(pem), algorithm, true, forPublic ?? []),
    privateKey: new CryptoKey(createPrivateKey(pem), algorithm, extractable, forPrivate ?? []),
  };
}

export const subtle = {
  async digest(algorithm: Algorithm | string, data: unknown): Promise<ArrayBuffer> {
    return decoded(hostCrypto('hash', { algorithm: hashName(algorithm), data: base64(data) }));
  },
  async importKey(
    format: string,
    data: unknown,
    algorithm: Algorithm | string,
    extractable: boolean,
    usages: string[],
  ): Promise<CryptoKey> {
    return new CryptoKey(keyFrom(format, data), named(algorithm), extractable, usages);
  },
  async exportKey(format: string, key: CryptoKey): Promise<unknown> {
    if (!key.extractable) throw new TypeError('The key is not extractable');
    const inner = CryptoKey.open(key);
    if (format === 'jwk') return inner.export({ format: 'jwk' });
    return new Uint8Array(inner.export({ format: format === 'raw' ? 'buffer' : 'der' }) as Uint8Array).buffer;
  },
  async generateKey(algorithm: Algorithm | string, extractable: boolean, usages: string[]): Promise<unknown> {
    return generate(named(algorithm), extractable, usages);
  },
  async sign(algorithm: Algorithm | string, key: CryptoKey, data: unknown): Promise<ArrayBuffer> {
    const secret = CryptoKey.open(key, 'sign');
    const chosen = named(algorithm);
    if (chosen.name.toUpperCase() === 'HMAC') {
      return decoded(
        hostCrypto('hmac', {
          algorithm: hashName(key.algorithm['hash']),
          key: base64(secret),
          data: base64(data),
        }),
      );
    }
    return decoded(hostCrypto('sign', { ...signing(chosen, key), key: secret.pem, data: base64(data) }));
  },
  async verify(
    algorithm: Algorithm | string,
    key: CryptoKey,
    signature: unknown,
    data: unknown,
  ): Promise<boolean> {
    const inner = CryptoKey.open(key, 'verify');
    const chosen = named(algorithm);
    if (chosen.name.toUpperCase() === 'HMAC') {
      const expected = hostCrypto<string>('hmac', {
        algorithm: hashName(key.algorithm['hash']),
        key: base64(inner),
        data: base64(data),
      });
      return expected === base64(signature);
    }
    return hostCrypto('verify', {
      ...signing(chosen, key),
      key: inner.pem,
      data: base64(data),
      signature: base64(signature),
    });
  },
  async encrypt(algorithm: Algorithm | string, key: CryptoKey, data: unknown): Promise<ArrayBuffer> {
    return cipher(named(algorithm), key, data, false);
  },
  async decrypt(algorithm: Algorithm | string, key: CryptoKey, data: unknown): Promise<ArrayBuffer> {
    return cipher(named(algorithm), key, data, true);
  },
  async deriveBits(algorithm: Algorithm, key: CryptoKey, length: number): Promise<ArrayBuffer> {
    return derive(algorithm, key, length);
  },
  async deriveKey(
    algorithm: Algorithm,
    key: CryptoKey,
    derived: Algorithm,
    extractable: boolean,
    usages: string[],
  ): Promise<CryptoKey> {
    const bits = derive(algorithm, key, Number(derived['length'] ?? 512));
    return new CryptoKey(createSecretKey(Buffer.from(bits)), derived, extractable, usages);
  },
};

import * as crypto from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { ciphers, digests } from '../algorithms.ts';

/**
 * Cryptography for guests, in the child: JSON in, JSON out, binary as base64. The algorithms are a fixed list, and
 * sizes and work factors are bounded, because a running operation can only be interrupted by the end of the process.
 */
export function performCrypto(text: string): string {
  try {
    const { op, ...input } = JSON.parse(text) as { op?: unknown } & Record<string, unknown>;
    const operation = typeof op === 'string' && Object.hasOwn(operations, op) ? operations[op] : undefined;
    if (operation === undefined) throw new TypeError('There is no such operation');
    return JSON.stringify({ ok: true, value: operation(input) });
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    return JSON.stringify({ ok: false, value: { message, code } });
  }
}

type Input = Record<string, unknown>;

const authenticated = /(gcm|poly1305)$/;
const curves = new Set(['P-256', 'P-384', 'P-521', 'prime256v1', 'secp256k1', 'secp384r1', 'secp521r1']);
const maxRandomBytes = 65_536;
const maxDerivedBytes = 4_096;
const maxIterations = 5_000_000;
const maxRsaBits = 4_096;

const operations: Readonly<Record<string, (input: Input) => unknown>> = {
  random: ({ size }) => encode(crypto.randomBytes(count(size, maxRandomBytes))),
  uuid: () => crypto.randomUUID(),
  int: ({ min, max }) => crypto.randomInt(Number(min), Number(max)),
  hash: ({ algorithm, data }) => encode(crypto.createHash(digest(algorithm)).update(bytes(data)).digest()),
  hmac: ({ algorithm, key, data }) =>
    encode(crypto.createHmac(digest(algorithm), bytes(key)).update(bytes(data)).digest()),
  cipher: runCipher,
  pbkdf2: ({ password, salt, iterations, length, algorithm }) =>
    encode(
      crypto.pbkdf2Sync(
        bytes(password),
        bytes(salt),
        count(iterations, maxIterations),
        count(length, maxDerivedBytes),
        digest(algorithm),
      ),
    ),
  scrypt: ({ password, salt, length, N = 16_384, r = 8, p = 1 }) =>
    encode(
      crypto.scryptSync(bytes(password), bytes(salt), count(length, maxDerivedBytes), {
        N: count(N, 65_536),
        r: count(r, 16),
        p: count(p, 16),
        maxmem: 67_108_864,
      }),
    ),
  hkdf: ({ algorithm, key, salt, info, length }) =>
    encode(
      Buffer.from(
        crypto.hkdfSync(
          digest(algorithm),
          bytes(key),
          bytes(salt),
          bytes(info),
          count(length, maxDerivedBytes),
        ),
      ),
    ),
  sign: ({ algorithm, key, data, options }) =>
    encode(
      crypto.sign(signatureDigest(algorithm), bytes(data), {
        key: privateKey(key),
        ...signatureOptions(options),
      }),
    ),
  verify: ({ algorithm, key, data, signature, options }) =>
    crypto.verify(
      signatureDigest(algorithm),
      bytes(data),
      { key: publicKey(key), ...signatureOptions(options) },
      bytes(signature),
    ),
  rsa: ({ operation, key, data, options }) => encode(runRsa(operation, key, bytes(data), options)),
  key: ({ kind, key }) => describeKey(kind === 'private' ? privateKey(key) : publicKey(key)),
  generate: generateKeys,
  ecdh: ({ privateKey: own, publicKey: other }) =>
    encode(crypto.diffieHellman({ privateKey: privateKey(own), publicKey: publicKey(other) })),
};

function runCipher(input: Input): unknown {
  const { algorithm, padding, aad, tag, isDecryption } = input;
  if (typeof algorithm !== 'string' || !ciphers.includes(algorithm))
    throw new TypeError('The cipher is not supported');
  const data = bytes(input['data']);
  const cipher = createCipher(algorithm, input);
  if (padding === false) cipher.setAutoPadding(false);
  const isAuthenticated = authenticated.test(algorithm);
  if (isAuthenticated && aad !== undefined) cipher.setAAD(bytes(aad), { plaintextLength: data.length });
  if (isAuthenticated && isDecryption === true) (cipher as crypto.DecipherGCM).setAuthTag(bytes(tag));
  const output = encode(Buffer.concat([cipher.update(data), cipher.final()]));
  if (!isAuthenticated || isDecryption === true) return { data: output };
  return { data: output, tag: encode((cipher as crypto.CipherGCM).getAuthTag()) };
}

function createCipher(
  algorithm: string,
  { key, iv, tagLength, isDecryption }: Input,
): crypto.CipherGCM | crypto.DecipherGCM {
  // One type for all modes. The authenticated modes have more methods, which are called for them only.
  const name = algorithm as crypto.CipherGCMTypes;
  const options = authenticated.test(algorithm) ? { authTagLength: count(tagLength ?? 16, 16) } : undefined;
  const vector = (iv === null ? null : bytes(iv)) as Buffer;
  return isDecryption === true
    ? crypto.createDecipheriv(name, bytes(key), vector, options)
    : crypto.createCipheriv(name, bytes(key), vector, options);
}

function runRsa(operation: unknown, key: unknown, data: Buffer, options: unknown): Buffer {
  const { padding, oaepHash } = (options ?? {}) as Input;
  const chosen = {
    padding: padding === undefined ? crypto.constants.RSA_PKCS1_OAEP_PADDING : count(padding, 6),
    ...(oaepHash === undefined ? {} : { oaepHash: digest(oaepHash) }),
  };
  switch (operation) {
    case 'publicEncrypt':
      return crypto.publicEncrypt({ key: publicKey(key), ...chosen }, data);
    case 'privateDecrypt':
      return crypto.privateDecrypt({ key: privateKey(key), ...chosen }, data);
    case 'privateEncrypt':
      return crypto.privateEncrypt(
        { key: privateKey(key), padding: crypto.constants.RSA_PKCS1_PADDING },
        data,
      );
    case 'publicDecrypt':
      return crypto.publicDecrypt({ key: publicKey(key), padding: crypto.constants.RSA_PKCS1_PADDING }, data);
    default:
      throw new TypeError('There is no such operation');
  }
}

function generateKeys({ type, modulusLength, namedCurve }: Input): unknown {
  const make = (): { privateKey: KeyObject } => {
    if (type === 'rsa')
      return crypto.generateKeyPairSync('rsa', { modulusLength: count(modulusLength ?? 2_048, maxRsaBits) });
    if (type === 'ed25519') return crypto.generateKeyPairSync('ed25519');
    if (type === 'x25519') return crypto.generateKeyPairSync('x25519');
    if (type === 'ec' && typeof namedCurve === 'string' && curves.has(namedCurve))
      return crypto.generateKeyPairSync('ec', { namedCurve });
    throw new TypeError('The key type is not supported');
  };
  return describeKey(make().privateKey).pem;
}

function describeKey(key: KeyObject) {
  const isPrivate = key.type === 'private';
  if (key.asymmetricKeyType === 'rsa' && (key.asymmetricKeyDetails?.modulusLength ?? 0) > maxRsaBits) {
    throw new RangeError('The key is too large');
  }
  const type = isPrivate ? 'pkcs8' : 'spki';
  return {
    pem: key.export({ format: 'pem', type }) as string,
    der: encode(key.export({ format: 'der', type })),
    jwk: key.export({ format: 'jwk' }),
    keyType: key.asymmetricKeyType,
    modulusLength: key.asymmetricKeyDetails?.modulusLength,
    namedCurve: key.asymmetricKeyDetails?.namedCurve,
  };
}

/** A key as PEM text, or `{pem, passphrase}`, `{der, type}`, `{jwk}`. */
function privateKey(input: unknown): KeyObject {
  return bounded(crypto.createPrivateKey(keyInput(input) as crypto.PrivateKeyInput));
}

function publicKey(input: unknown): KeyObject {
  return bounded(crypto.createPublicKey(keyInput(input) as crypto.PublicKeyInput));
}

function bounded(key: KeyObject): KeyObject {
  if ((key.asymmetricKeyDetails?.modulusLength ?? 0) > maxRsaBits)
    throw new RangeError('The key is too large');
  return key;
}

function keyInput(input: unknown): unknown {
  if (typeof input === 'string') return { key: input };
  const { pem, passphrase, der, type, jwk } = (input ?? {}) as Input;
  if (typeof pem === 'string')
    return { key: pem, ...(passphrase === undefined ? {} : { passphrase: bytes(passphrase) }) };
  if (typeof der === 'string') return { key: bytes(der), format: 'der', type: type ?? 'pkcs8' };
  return { key: jwk, format: 'jwk' };
}

function signatureOptions(options: unknown) {
  const { padding, saltLength, dsaEncoding } = (options ?? {}) as Input;
  return {
    ...(padding === undefined ? {} : { padding: count(padding, 6) }),
    ...(saltLength === undefined ? {} : { saltLength: Number(saltLength) }),
    ...(dsaEncoding === 'ieee-p1363' ? { dsaEncoding: 'ieee-p1363' as const } : {}),
  };
}

function digest(name: unknown): string {
  const known = String(name)
    .toLowerCase()
    .replace(/^rsa-/, '')
    .replace(/^sha-/, 'sha')
    .replace('sha512/256', 'sha512-256');
  if (!digests.includes(known)) throw new TypeError('Digest method not supported');
  return known;
}

/** Ed25519 signs without a separate digest. */
function signatureDigest(name: unknown): string | null {
  return name === null || name === undefined ? null : digest(name);
}

function count(value: unknown, max: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > max)
    throw new RangeError(`A number up to ${max} is needed`);
  return value as number;
}

function bytes(value: unknown): Buffer {
  return Buffer.from(typeof value === 'string' ? value : '', 'base64');
}

function encode(value: Buffer): string {
  return value.toString('base64');
}

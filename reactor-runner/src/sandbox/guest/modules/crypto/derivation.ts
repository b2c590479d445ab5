import type { Buffer } from 'buffer';
import { base64, hostCrypto } from './keys.ts';
import { decoded, deferred, type Done } from './shared.ts';

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

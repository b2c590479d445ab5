import type { Buffer } from 'buffer';
import { base64, hostCrypto, keyInput, toBuffer } from './keys.ts';
import { Collector, decoded, output } from './shared.ts';

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

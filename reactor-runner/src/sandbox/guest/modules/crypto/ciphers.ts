import { Buffer } from 'buffer';
import { ciphers } from '../../../algorithms.ts';
import { base64, hostCrypto } from './keys.ts';
import { Collector, decoded, output } from './shared.ts';

export const getCiphers = (): string[] => [...ciphers];

/**
 * The whole text is processed in `final`, and `update` gives an empty piece. Callers that concatenate both see no
 * difference.
 */
class Cipher {
  readonly #input = new Collector();
  readonly #settings: Record<string, unknown>;
  #tag: Buffer | undefined;
  constructor(
    algorithm: string,
    key: unknown,
    iv: unknown,
    isDecryption: boolean,
    options?: { authTagLength?: number },
  ) {
    const vector = iv === null ? null : base64(iv);
    this.#settings = {
      algorithm: algorithm.toLowerCase(),
      key: base64(key),
      iv: vector,
      isDecryption,
      tagLength: options?.authTagLength,
    };
  }
  update(data: unknown, encoding?: string, outputEncoding?: string): Buffer | string {
    this.#input.update(data, encoding);
    return output(Buffer.alloc(0), outputEncoding);
  }
  final(encoding?: string): Buffer | string {
    const { data, tag } = hostCrypto<{ data: string; tag?: string }>('cipher', {
      ...this.#settings,
      data: this.#input.collected(),
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

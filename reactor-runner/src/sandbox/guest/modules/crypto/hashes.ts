import type { Buffer } from 'buffer';
import { digests } from '../../../algorithms.ts';
import { base64, hostCrypto, toBuffer } from './keys.ts';
import { Collector, decoded, output } from './shared.ts';

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
export const getHashes = (): string[] => [...digests];
export function timingSafeEqual(a: ArrayBufferView, b: ArrayBufferView): boolean {
  const [left, right] = [toBuffer(a), toBuffer(b)];
  if (left.length !== right.length) throw new RangeError('Input buffers must have the same byte length');
  let difference = 0;
  for (let at = 0; at < left.length; at++) difference |= (left[at] as number) ^ (right[at] as number);
  return difference === 0;
}

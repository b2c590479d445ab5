import { Buffer } from 'buffer';
import { toBuffer } from './keys.ts';

export type Done = (error: Error | null, value?: unknown) => void;

/** The callback forms of Node's functions: the same result, a tick later. */
export function deferred<T>(make: () => T, done?: Done): T | undefined {
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

export const decoded = (text: string): Buffer => Buffer.from(text, 'base64');
export const output = (value: Buffer, encoding?: string): Buffer | string =>
  encoding === undefined ? value : value.toString(encoding as 'hex');

/** Chunks are collected here and hashed by the host in one operation. */
export class Collector {
  readonly chunks: Buffer[] = [];
  #isFinal = false;
  update(data: unknown, encoding?: string): this {
    if (this.#isFinal) throw new Error('Digest already called');
    this.chunks.push(Buffer.from(toBuffer(data, encoding)));
    return this;
  }
  collected(): string {
    this.#isFinal = true;
    return Buffer.concat(this.chunks).toString('base64');
  }
}

import { hostCrypto } from './keys.ts';
import { decoded, deferred, type Done } from './shared.ts';

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

import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { among, linesOf } from '../src/backup/lines.ts';

const id = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;

async function all(batches: AsyncIterable<readonly string[]>): Promise<string[]> {
  const found: string[] = [];
  for await (const batch of batches) found.push(...batch);
  return found;
}

/** Splits the lines into batches of the given size, so that every batch border is tested. */
async function* batched(lines: readonly string[], size: number): AsyncGenerator<readonly string[], void> {
  for (let at = 0; at < lines.length; at += size) yield await Promise.resolve(lines.slice(at, at + size));
}

const chunked = (text: string, size: number): AsyncIterable<Buffer> => {
  const bytes = Buffer.from(text);
  const count = Math.ceil(bytes.length / size);
  return Readable.from(Array.from({ length: count }, (_, at) => bytes.subarray(at * size, (at + 1) * size)));
};

describe('lines of a file', () => {
  const lines = ['first', '', 'with \r, \u2028 and \u2029 in it', 'ü'.repeat(50), 'last'];

  it.each([1, 2, 3, 7, 1_000])('are the same for any division, here by %i bytes', async (size) => {
    expect(await all(linesOf(chunked(`${lines.join('\n')}\n`, size)))).toEqual(lines);
    expect(await all(linesOf(chunked(lines.join('\n'), size)))).toEqual(lines);
  });
});

describe('rows named by a list', () => {
  const rows = [1, 3, 5, 7, 9].map((n) => `${id(n)}\trow ${n}`);
  const kept = (...included: number[]) =>
    Promise.all(
      [1, 2, 3, 10].map((size) => all(among(batched(rows, size), batched(included.map(id), size)))),
    );
  const of = (...numbers: number[]) => {
    const expected = rows.filter((_, index) => numbers.includes(index * 2 + 1));
    return [expected, expected, expected, expected];
  };

  it('are those that both files have', async () => {
    expect(await kept(1, 5, 9)).toEqual(of(1, 5, 9));
    expect(await kept(0, 3, 4, 20)).toEqual(of(3));
    expect(await kept(1, 3, 5, 7, 9)).toEqual(of(1, 3, 5, 7, 9));
    expect(await kept()).toEqual(of());
  });

  it('are refused out of order, because rows would be skipped', async () => {
    const mixed = [id(3), id(1)];
    await expect(all(among(batched(rows, 2), batched(mixed, 2)))).rejects.toThrow('not in order');
    await expect(all(among(batched(mixed, 2), batched([], 2)))).rejects.toThrow('not in order');
    await expect(all(among(batched([id(1), id(1)], 2), batched([], 2)))).rejects.toThrow('not in order');
  });
});

import { InsufficientStorageError } from '@token-vault/event-store';
import { createLogger, createMetrics } from '@token-vault/observability';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { watchStorage } from '../src/storage.ts';

// A vault whose disk really fills is in standalone/test/full-disk.slow.test.ts.

const mebibyte = 1024 * 1024;
const gibibyte = 1024 * mebibyte;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The watch of a disk of this size, and what it has logged so far. */
async function watching(sizeBytes: number) {
  const lines: string[] = [];
  const destination = {
    write: (line: string) => void lines.push((JSON.parse(line) as { msg: string }).msg),
  };
  const metrics = createMetrics('test');
  let answer = () => Promise.resolve({ freeBytes: sizeBytes, sizeBytes });
  const logger = createLogger({ service: 'test', level: 'info', destination });
  const watch = await watchStorage({ path: '/data', logger, metrics, spaceAt: () => answer() });
  onTestFinished(() => watch.close());
  return {
    lines,
    metrics,
    isRefused: () => {
      try {
        watch.requireSpace();
        return false;
      } catch (error) {
        expect(error).toBeInstanceOf(InsufficientStorageError);
        return true;
      }
    },
    /** The free space that the next look finds; undefined: the disk cannot be asked. */
    async finds(freeBytes: number | undefined) {
      answer = () =>
        freeBytes === undefined
          ? Promise.reject(new Error('gone'))
          : Promise.resolve({ freeBytes, sizeBytes });
      await vi.advanceTimersByTimeAsync(1_000);
    },
  };
}

describe('the disk of the database', () => {
  it.each([
    ['1 GiB', gibibyte, 64 * mebibyte],
    ['3.125 GiB', 3.125 * gibibyte, 64 * mebibyte],
    ['100 GiB', 100 * gibibyte, 2 * gibibyte],
  ])(
    'of %s has the larger of 64 MiB and 2 % in reserve, below which writes are refused',
    async (...given) => {
      const [, sizeBytes, reserve] = given;
      const disk = await watching(sizeBytes);
      await disk.finds(reserve);
      expect(disk.isRefused()).toBe(false);
      await disk.finds(reserve - 1);
      expect(disk.isRefused()).toBe(true);
      expect(await disk.metrics.registry.metrics()).toContain(
        `vault_storage_bytes{part="reserve",service="test"} ${reserve}`,
      );
      await disk.finds(reserve);
      expect(disk.isRefused()).toBe(false);
    },
  );

  it('is reported once at each change: at 90 %, at the reserve, and when there is room again', async () => {
    const disk = await watching(100 * gibibyte);
    for (const freeGibibytes of [10, 9, 8, 1, 0, 50, 50]) await disk.finds(freeGibibytes * gibibyte);
    expect(disk.lines).toEqual([
      'the disk of the database is more than 90 % full',
      'the disk of the database is full: writes are refused',
      'the disk of the database has room again: writes are accepted',
    ]);
  });

  it('refuses nothing while it cannot be asked, which is reported once', async () => {
    const disk = await watching(gibibyte);
    await disk.finds(0);
    expect(disk.isRefused()).toBe(true);
    await disk.finds(undefined);
    await disk.finds(undefined);
    expect(disk.isRefused()).toBe(false);
    expect(disk.lines.filter((line) => line.includes('cannot be read'))).toHaveLength(1);
    await disk.finds(0);
    expect(disk.isRefused()).toBe(true);
  });
});

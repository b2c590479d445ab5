import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Attack } from './sandbox-corpus.ts';
import { createTestPool, handler } from './sandbox-pool-fixture.ts';
import type { TestPool } from './sandbox-pool-fixture.ts';

const usualTimeoutMs = 1_500;
/** The product's own limit is 500 ms. The rest allows for a busy machine. */
const marginMs = 6_000;
const neighbour = handler('return { raw: req.args.n + 1 };');

export function describeAttacks(attacks: readonly Attack[], escapes: readonly Attack[]): void {
  let test: TestPool;
  beforeAll(async () => {
    test = await createTestPool();
  });
  afterAll(() => test.close());

  const neighbourIsServed = async (): Promise<void> => {
    const outcome = await test.run(neighbour, { tenantId: 'neighbour', args: { n: 1 } });
    expect(outcome).toMatchObject({ kind: 'succeeded', result: { raw: 2 } });
  };

  describe('hostile code', () => {
    it.each(attacks)('is contained: $name', async ({ code, ends, timeoutMs = usualTimeoutMs }) => {
      const startedAt = performance.now();
      const [outcome] = await Promise.all([
        test.run(code, { tenantId: 'mallory', timeoutMs }),
        neighbourIsServed(),
      ]);
      expect(ends).toContain(outcome.kind);
      expect(performance.now() - startedAt).toBeLessThan(timeoutMs + marginMs);
      await neighbourIsServed();
    });

    it.each(escapes)('cannot leave the sandbox: $name', async ({ code, ends }) => {
      const outcome = await test.run(code, {
        tenantId: 'mallory',
        hostCalls: { fetch: () => Promise.reject(new Error('no')) },
      });
      expect(ends).toContain(outcome.kind);
      if (outcome.kind === 'succeeded') expect(outcome.result.raw).toEqual([]);
      await neighbourIsServed();
    });

    it('leaves no process that still uses CPU time', async () => {
      expect(test.pool.stats().queued).toBe(0);
      await expect.poll(() => test.pool.stats().busy, { timeout: 10_000 }).toBe(0);
    });
  });
}

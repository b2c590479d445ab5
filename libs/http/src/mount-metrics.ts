import { threadShares, type ThreadShares } from '@token-vault/batching';
import type { Express } from 'express';
import type { Metrics } from '@token-vault/observability';

/** Computing the text takes milliseconds: many scrapers at once must not delay requests. */
const keptMs = 1_000;
/** The time that one answer takes of the thread: it includes reading the request and writing a hundred kilobytes or more. */
const answerMs = 3;

/**
 * `GET /metrics` in the text format of Prometheus. No key needed: it contains no data of tenants. All scrapers together have the share of the
 * thread that one tenant has for long work.
 */
export function mountMetrics(
  app: Express,
  { registry }: Metrics,
  shares: Pick<ThreadShares, 'begin'> = threadShares,
): void {
  let kept: Promise<Buffer> | undefined;
  const compute = async () => Buffer.from(await registry.metrics(), 'utf8');
  const metrics = () =>
    (kept ??= compute().finally(() => {
      setTimeout(() => (kept = undefined), keptMs).unref();
    }));
  app.get('/metrics', async (request, response) => {
    const turn = await shares.begin('scrapers');
    // A client that has disconnected uses nothing of the share, so the other clients do not wait for it.
    if (request.socket.destroyed) return turn.end();
    const bytes = metrics();
    turn.end({ ms: answerMs });
    response
      .setHeader('Content-Type', registry.contentType)
      .setHeader('Cache-Control', 'no-store')
      .end(await bytes);
  });
}

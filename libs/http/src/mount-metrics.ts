import { threadShares, type ThreadShares } from '@token-vault/batching';
import type { Express } from 'express';
import type { Metrics } from '@token-vault/observability';

/** Computing the text takes milliseconds: many scrapers at once must not delay requests. */
const keptMs = 1_000;
/** The time that one answer takes of the thread: it includes reading the request and writing a hundred kilobytes or more. */
const answerMs = 3;

/** All of them together count as one application. */
const scrapers = { tenantId: 'scrapers', applicationId: 'scrapers' };

interface MetricsOptions {
  readonly shares?: Pick<ThreadShares, 'begin'>;
  /** Monotonic milliseconds. */
  readonly nowMs?: () => number;
}

/**
 * `GET /metrics` in the text format of Prometheus. No key needed: it contains no data of tenants. All scrapers together have the share of the
 * thread that one tenant has for long work.
 */
export function mountMetrics(
  app: Express,
  { registry }: Metrics,
  { shares = threadShares, nowMs = () => performance.now() }: MetricsOptions = {},
): void {
  let kept: { readonly bytes: Promise<Buffer>; untilMs: number } | undefined;
  const compute = async () => Buffer.from(await registry.metrics(), 'utf8');
  function metrics(): Promise<Buffer> {
    if (kept && nowMs() < kept.untilMs) return kept.bytes;
    const bytes = compute().finally(() => (made.untilMs = nowMs() + keptMs));
    const made = { bytes, untilMs: Infinity };
    kept = made;
    return bytes;
  }
  app.get('/metrics', async (request, response) => {
    const turn = await shares.begin(scrapers);
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

import type { Express } from 'express';
import type { Metrics } from '@token-vault/observability';

/** Computing the text takes milliseconds: many scrapers at once must not delay requests. */
const keptMs = 1_000;

/** `GET /metrics` in the text format of Prometheus. No key needed: it contains no data of tenants. */
export function mountMetrics(app: Express, { registry }: Metrics): void {
  let text: Promise<string> | undefined;
  app.get('/metrics', async (_request, response) => {
    text ??= registry.metrics().finally(() => {
      setTimeout(() => (text = undefined), keptMs).unref();
    });
    response
      .setHeader('Content-Type', registry.contentType)
      .setHeader('Cache-Control', 'no-store')
      .end(await text);
  });
}

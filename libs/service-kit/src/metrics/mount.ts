import type { Express } from 'express';
import type { Metrics } from './metrics.ts';

/** Computing the text takes milliseconds: many scrapers at once must not hold up requests. */
const keptMs = 1_000;

/** `GET /metrics` in the text format of Prometheus. No key needed: there is nothing of anybody in it. */
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

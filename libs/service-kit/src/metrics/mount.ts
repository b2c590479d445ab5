import type { Express } from 'express';
import type { Metrics } from './metrics.ts';

/** `GET /metrics` in the text format of Prometheus. No key needed: there is nothing of anybody in it. */
export function mountMetrics(app: Express, { registry }: Metrics): void {
  app.get('/metrics', async (_request, response) => {
    const text = await registry.metrics();
    response.setHeader('Content-Type', registry.contentType).setHeader('Cache-Control', 'no-store').end(text);
  });
}

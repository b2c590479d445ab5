import type { OperationId } from '@token-vault/contracts';
import { Gauge, Histogram } from 'prom-client';
import { requestTurns } from './request-turns.ts';
import type { Metrics } from '@token-vault/observability';

export interface AnsweredRequest {
  readonly operation: OperationId;
  readonly status: number;
  readonly seconds: number;
  readonly traceId: string;
}

/** Called for each request that an operation answered. */
export type RequestObserver = (request: AnsweredRequest) => void;

/** From half a millisecond to the longest time of a synchronous invocation. */
const buckets = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 210];

/**
 * `vault_http_request_duration_seconds`, by operation id and status: its `_count` is the number of requests.
 * `vault_http_requests_waiting`: those that wait for the turn of their tenant.
 */
export function observeRequests({ registry }: Metrics): RequestObserver {
  const durations = new Histogram({
    name: 'vault_http_request_duration_seconds',
    help: 'How long requests took, by operation of the interface and status of the answer.',
    labelNames: ['operation', 'status'],
    buckets,
    registers: [registry],
  });
  new Gauge({
    name: 'vault_http_requests_waiting',
    help: 'Requests that were authenticated and wait for the turn of their tenant.',
    registers: [registry],
    collect() {
      this.set(requestTurns.waiting);
    },
  });
  /** One entry for each pair of labels, so that the labels are checked once. */
  const bound = new Map<string, { observe(seconds: number): void }>();
  return ({ operation, status, seconds }) => {
    const pair = `${operation} ${status}`;
    let histogram = bound.get(pair);
    if (!histogram) {
      histogram = durations.labels({ operation, status: String(status) });
      bound.set(pair, histogram);
    }
    histogram.observe(seconds);
  };
}

import { Gauge, Histogram } from 'prom-client';
import type { Metrics } from './metrics.ts';

/** How a request through a proxy ends. Destinations are never named: tenants choose them, and there may be any number. */
export const proxyOutcomes = [
  'answered',
  /** The destination is not allowed: by a list, or by its address, port or scheme. */
  'refused',
  /** No connection, or one that ended within the answer; also an answer that is too large. */
  'failed',
  'timed-out',
  /** The destination has answered, but the caller was not given the answer. */
  'withheld',
  'client-gone',
  /** Nothing was sent: the request, its tokens or the rights of its caller did not allow it. */
  'not-sent',
  /** Too many requests of the application, or of its tenant, were under way. */
  'too-many',
] as const;
export type ProxyOutcome = (typeof proxyOutcomes)[number];

/** Called when a request begins. Gives the function that is called once, with its outcome. */
export type ProxyObserver = () => (outcome: ProxyOutcome) => void;

const buckets = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120];

/** `vault_proxy_request_duration_seconds`, by outcome, and `vault_proxy_requests_under_way`. */
export function observeProxyRequests({ registry }: Metrics): ProxyObserver {
  const durations = new Histogram({
    name: 'vault_proxy_request_duration_seconds',
    help: 'How long requests to other servers took, to the last byte of the answer, by their outcome.',
    labelNames: ['outcome'],
    buckets,
    registers: [registry],
  });
  // Prometheus computes a rate only from a series that existed before. Without this, the first failure would be missing.
  for (const outcome of proxyOutcomes) durations.zero({ outcome });
  const underWay = new Gauge({
    name: 'vault_proxy_requests_under_way',
    help: 'Requests to other servers that have begun and not ended.',
    registers: [registry],
  });
  return () => {
    const sinceMs = performance.now();
    underWay.inc();
    return (outcome) => {
      underWay.dec();
      durations.observe({ outcome }, (performance.now() - sinceMs) / 1000);
    };
  };
}

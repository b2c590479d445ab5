export { notBegunHeader, refuse } from './answer.ts';
export { createApp, finishApp, type AppDependencies } from './app.ts';
export { bodyLimitBytes, collectBody, parseBody, rawBodyLimitBytes } from './body.ts';
export { mountConsole, type ConsoleFile, type ConsoleFiles } from './console.ts';
export { mountHealth, type HealthCheck } from './health.ts';
export { type MissCounter, type TakenPlaces } from './miss-counter.ts';
export { createMissLimit, type CountedTries, type MissLimit } from './miss-limit.ts';
export { mountMetrics } from './mount-metrics.ts';
export { problemDetails, toProblem, type Problem } from './problem.ts';
export {
  addressGroup,
  createRateLimits,
  defaultFailuresPerMinute,
  defaultRequestsPerMinute,
  RateLimitedError,
  type RateLimitOptions,
  type RateLimits,
} from './rate-limits.ts';
export type { ProxyKeys } from './operation.ts';
export { mountReference } from './reference.ts';
export { observeRequests, type AnsweredRequest, type RequestObserver } from './request-metrics.ts';
export { BodyTurns, bodyTurns } from './body-turns.ts';
export { inFlight } from './in-flight.ts';
export { requestTurns } from './request-turns.ts';
export { listen, type RunningServer } from './server.ts';
export { cutOffStalledReader } from './stalled-reader.ts';
export {
  clientAddress,
  readTrustProxy,
  trustOf,
  type TrustedProxies,
  type TrustPeer,
} from './trusted-proxies.ts';

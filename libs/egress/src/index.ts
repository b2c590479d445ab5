export { EgressError } from './egress-error.ts';
export type { EgressErrorCode } from './egress-error.ts';
export { createEgressBroker } from './broker.ts';
export type {
  EgressBroker,
  EgressBrokerOptions,
  EgressFetch,
  EgressRequest,
  EgressResponse,
} from './broker.ts';
export type { EgressAnswer, EgressSend, EgressSending } from './send.ts';

import { TenantKeysMissingError } from '@token-vault/crypto';
import type { DeliveryOptions, ToInvocation } from '@token-vault/invocation-feed';
import { errorFields, type Logger } from '@token-vault/observability';

/**
 * How long claimed runs may continue when a runner closes. The runs that are killed then still record their outcome
 * within the 25 s that a process has.
 */
export const drainMs = 18_000;

export const toInvocation: ToInvocation = (event) =>
  event.type === 'ReactorInvoked'
    ? {
        tenantId: event.metadata.tenant_id,
        invocationId: event.data.invocation_id,
        event,
      }
    : undefined;

/** How a runner wants invocations delivered, for every feed. */
export function deliveryOptions(logger: Logger): DeliveryOptions {
  return {
    // The lanes and the sandbox limit the number of runs, not the feed. Only invocations with a waiting caller wait
    // here (backlog.ts).
    concurrency: 10_000,
    // A claimed run is never started again, so every other failure came before the claim, and the invocation must be
    // delivered again. When the tenant was deleted there are no keys, and nothing can be run or recorded.
    isTransient: (error) => !(error instanceof TenantKeysMissingError),
    maxAttempts: 1,
    onDeadLetter: ({ invocation, reason, error }) => {
      const fields = {
        tenant_id: invocation?.tenantId,
        invocation_id: invocation?.invocationId,
        reason,
        error_code: error,
      };
      logger.warn(fields, 'an invocation is given up: its tenant is gone');
      return Promise.resolve();
    },
    onTrouble: (error) => logger.warn(errorFields(error), 'the feed of invocations has failed'),
    // A closing runner ends its runs by itself.
    drainTimeoutMs: 2 * drainMs,
  };
}

import { TenantKeysMissingError } from '@token-vault/crypto';
import type { DeliveryOptions, ToInvocation } from '@token-vault/invocations';
import { errorFields, type Logger } from '@token-vault/service-kit';

export const toInvocation: ToInvocation = (event) =>
  event.type === 'ReactorInvoked'
    ? {
        tenantId: event.metadata.tenant_id,
        invocationId: event.data.invocation_id,
        event,
      }
    : undefined;

/** How a runner wants invocations brought to it, whatever the feed. */
export function deliveryOptions(logger: Logger): DeliveryOptions {
  return {
    // Not how many run at once, which is for lanes and the sandbox to say. Only what a caller waits for waits here (backlog.ts).
    concurrency: 10_000,
    // A claimed run is never taken up again, so what fails has failed before: it must not be lost. Without keys, because the
    // tenant was deleted, nothing can be run or recorded any more.
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
    onTrouble: (error) => logger.warn(errorFields(error), 'the feed of invocations has trouble'),
    drainTimeoutMs: 10_000,
  };
}

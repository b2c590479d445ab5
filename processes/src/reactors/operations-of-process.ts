import { createTokenReplay } from '@token-vault/command-service';
import { errorFields } from '@token-vault/observability';
import { createAuditTrail, systemClock, type Handlers } from '@token-vault/operations';
import { createEntityFinder } from '@token-vault/read-models';
import type { VaultOperations } from '@token-vault/reactor-runner';
import type { ProcessContext } from '../data.ts';
import type { HandlerParts } from '../handlers.ts';
import { createReactorOperations } from './operations.ts';
import type { Principals } from './principals.ts';

/** The requests of code, answered by the handlers of this process. */
export function openReactorOperations(
  { logger, storage }: ProcessContext,
  parts: HandlerParts & { readonly handlers: Handlers },
  principals: Principals,
): VaultOperations {
  const { store, keyRing, expressions, readPool, progress, watch, revocations, handlers } = parts;
  const clock = systemClock;
  const audit = createAuditTrail(store);
  const findActor: Principals['byActor'] = (...asked) => principals.byActor(...asked);
  return createReactorOperations({
    handlers,
    principals,
    audit,
    tokenReplay: createTokenReplay({ store, keyRing, audit, expressions, clock, findActor }),
    findEntity: createEntityFinder(readPool),
    progress,
    watch,
    revocations,
    storage,
    clock,
    onUnrecorded: (error, { traceId }, id) =>
      logger.warn({ trace_id: traceId, operation: id, ...errorFields(error) }, 'refusal not recorded'),
  });
}

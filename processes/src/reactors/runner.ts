import { createTokenUse } from '@token-vault/command-service';
import type { InvocationFeed } from '@token-vault/invocations';
import { countPending, createEgressBroker, startReactorRunner } from '@token-vault/reactor-runner';
import {
  createAuditTrail,
  createEntityFinder,
  errorFields,
  systemClock,
  type Handlers,
} from '@token-vault/service-kit';
import type { ProcessContext } from '../data.ts';
import type { HandlerParts } from '../handlers.ts';
import { createReactorOperations } from './operations.ts';
import type { ReactorParts } from './parts.ts';
import { createPrincipals } from './principals.ts';

export interface RunnerParts extends HandlerParts {
  readonly reactors: ReactorParts;
  readonly feed: InvocationFeed;
  /** Of this process: what reactor code asks of the vault is answered by them, with all that goes with a request. */
  readonly handlers: Handlers;
}

/** Runs reactors in this process. */
export function openRunner(
  { settings, logger, closers, metrics, spans }: ProcessContext,
  parts: RunnerParts,
  options: { readonly egressAllow: readonly string[] },
): void {
  const { store, keyRing, expressions, readPool, progress, watch, revocations, reactors, handlers, feed } =
    parts;
  const clock = systemClock;
  const audit = createAuditTrail(store);
  const egress = closers.add(createEgressBroker({ allowCidrs: options.egressAllow }), (it) => it.close());
  const tokenUse = createTokenUse({ store, keyRing, clock });
  const principals = createPrincipals({ pool: readPool, store, keyRing, clock, watch });
  const runner = startReactorRunner({
    store,
    keyRing,
    clock,
    logger,
    pool: readPool,
    connectionString: settings.databaseUrl,
    feed,
    findInvoker: (...asked) => principals.invoker(...asked),
    refuseUse: (...used) => tokenUse.refusal(...used),
    expressions,
    openTokens: (tokenIds, context) => tokenUse.open(tokenIds, context),
    operations: createReactorOperations({
      handlers,
      principals,
      audit,
      findEntity: createEntityFinder(readPool),
      progress,
      watch,
      revocations,
      clock,
      onUnrecorded: (error, { traceId }, id) =>
        logger.warn({ trace_id: traceId, operation: id, ...errorFields(error) }, 'refusal not recorded'),
    }),
    spans,
    sandbox: reactors.sandbox,
    fetch: egress.fetch,
  });
  closers.add(runner, (it) => it.close());
  metrics.gauge(
    'vault_invocations_pending',
    'Invocations of reactors that wait for a runner (asynchronous ones), run, or are not delivered; at most 100,000 are counted.',
    'state',
    async () => ({ ...(await countPending(readPool)) }),
  );
}

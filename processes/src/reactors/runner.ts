import {
  createDecisionOnOutputs,
  createOwnerDecision,
  createSeenTokens,
  createTokenUse,
} from '@token-vault/command-service';
import { createEgressBroker } from '@token-vault/egress';
import type { InvocationFeed } from '@token-vault/invocation-feed';
import { countPending, startReactorRunner } from '@token-vault/reactor-runner';
import { createAuditTrail, systemClock, type Handlers } from '@token-vault/operations';
import type { ProcessContext } from '../data.ts';
import { guessesOf, type HandlerParts } from '../handlers.ts';
import { openReactorOperations } from './operations-of-process.ts';
import type { ReactorParts } from './parts.ts';
import { createPrincipals, type Principals } from './principals.ts';

export interface RunnerParts extends HandlerParts {
  readonly reactors: ReactorParts;
  readonly feed: InvocationFeed;
  /** The handlers of this process. They answer the requests of reactor code. */
  readonly handlers: Handlers;
}

/** Runs reactors in this process. */
export function openRunner(
  context: ProcessContext,
  parts: RunnerParts,
  options: { readonly egressAllow: readonly string[]; readonly runsPerTenant: number | undefined },
): void {
  const { settings, logger, closers, metrics, spans } = context;
  const { store, keyRing, expressions, readPool, watch, reactors, feed } = parts;
  const clock = systemClock;
  const audit = createAuditTrail(store);
  const egress = closers.add(createEgressBroker({ allowCidrs: options.egressAllow }), (it) => it.close());
  const tokenUse = createTokenUse({ store, keyRing, clock });
  const principals = createPrincipals({ pool: readPool, store, keyRing, clock, watch });
  const findActor: Principals['byActor'] = (...asked) => principals.byActor(...asked);
  const runner = startReactorRunner({
    store,
    keyRing,
    clock,
    logger,
    pool: readPool,
    connectionString: settings.databaseUrl,
    feed,
    findInvoker: (...asked) => principals.invoker(...asked),
    decisionOnUse: (...used) => tokenUse.decisionOn(...used),
    useNamed: (...named) => tokenUse.useNamed(...named),
    refuseOwner: createOwnerDecision({ store, keyRing, clock }),
    decisionOnSeen: createSeenTokens({ store, keyRing, clock, audit, findActor }),
    decisionOnOutputs: createDecisionOnOutputs({ store, keyRing, clock, audit, expressions }),
    expressions,
    guess: guessesOf(parts),
    openTokens: (...opened) => tokenUse.open(...opened),
    operations: openReactorOperations(context, parts, principals),
    spans,
    sandbox: reactors.sandbox,
    runsPerTenant: options.runsPerTenant,
    fetch: egress.fetch,
  });
  closers.add(runner, (it) => it.close());
  observePending(metrics, readPool);
}

function observePending(metrics: ProcessContext['metrics'], readPool: RunnerParts['readPool']): void {
  metrics.gauge(
    'vault_invocations_pending',
    'Invocations of reactors that wait for a runner (asynchronous ones), run, or are not delivered; at most 100,000 are counted.',
    'state',
    async () => ({ ...(await countPending(readPool)) }),
  );
}

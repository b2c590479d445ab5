import {
  createInvocationOutcomes,
  createTokenUse,
  type CompileCode,
  type InvocationOutcomes,
} from '@token-vault/command-service';
import { UnavailableError } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { createDirectInvocationFeed } from '@token-vault/invocations/direct';
import {
  createEgressBroker,
  createFeedCheckpoints,
  createLazySandbox,
  deliveryOptions,
  startReactorRunner,
  toInvocation,
  type LazySandbox,
} from '@token-vault/reactor-runner';
import type { AuditTrail, Clock, Handlers, Logger, ProjectionProgress } from '@token-vault/service-kit';
import type { Pool } from 'pg';
import { LocalOperations } from './operations.ts';
import { createPrincipals } from './principals.ts';

export interface ReactorParts {
  readonly outcomes: InvocationOutcomes;
  readonly sandbox: LazySandbox;
  readonly compileCode: CompileCode;
}

/** What command handlers need of reactors, before there are handlers. Close both after the runner. */
export function createReactorParts(store: EventStore, logger: Logger): ReactorParts {
  const sandbox = createLazySandbox({
    // The rest starts when it is needed: an idle process takes 50 MB.
    spares: 1,
    report: (event) => {
      if (event.kind === 'walls') {
        const missing = Object.entries(event.walls).filter(([, stands]) => stands === false);
        const reason = missing.map(([name]) => name).join(', ');
        if (reason === '') logger.info({ task: 'sandbox' }, 'the sandbox of reactors has all its walls');
        else logger.warn({ task: 'sandbox', reason }, 'the sandbox of reactors lacks walls on this host');
      } else logger.error({ task: 'sandbox' }, 'processes of the sandbox do not start');
    },
  });
  return {
    outcomes: createInvocationOutcomes({ store, logger }),
    sandbox,
    async compileCode(code, tenantId) {
      const outcome = await sandbox.compile({ code, tenantId });
      switch (outcome.kind) {
        case 'compiled':
          return { ok: true };
        case 'compile-error':
          return { ok: false, message: outcome.message, line: outcome.line, column: outcome.column };
        case 'unavailable':
          throw new UnavailableError('Code cannot be compiled now; try again.');
      }
    },
  };
}

export interface RunnerSettings {
  readonly parts: ReactorParts;
  readonly handlers: Handlers;
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
  readonly progress: ProjectionProgress;
  readonly pool: Pool;
  readonly databaseUrl: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly egressAllow: readonly string[];
}

/** Runs reactors in this process, with the handlers of this process. */
export function startReactors(settings: RunnerSettings): { close(): Promise<void> } {
  const { parts, handlers, store, keyRing, audit, progress, pool, databaseUrl, clock, logger } = settings;
  const egress = createEgressBroker({ allowCidrs: settings.egressAllow });
  const tokenUse = createTokenUse({ store, keyRing, audit, clock });
  const principals = createPrincipals(pool, clock);
  const runner = startReactorRunner({
    store,
    keyRing,
    clock,
    logger,
    pool,
    connectionString: databaseUrl,
    feed: createDirectInvocationFeed({
      ...deliveryOptions(logger),
      store,
      checkpoints: createFeedCheckpoints(pool, 'runner'),
      toInvocation,
    }),
    openTokens: (tokenIds, context) => tokenUse.open(tokenIds, context),
    operations: new LocalOperations({ handlers, principals, audit, progress, clock }),
    sandbox: parts.sandbox,
    fetch: egress.fetch,
  });
  return {
    async close() {
      await runner.close();
      await parts.sandbox.close();
      await parts.outcomes.close();
      await egress.close();
    },
  };
}

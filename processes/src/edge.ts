import { createConsoleUse } from '@token-vault/command-service';
import type { KeyRing } from '@token-vault/crypto';
import {
  createAuthenticator,
  createKeyUses,
  listenForAccessChanges,
  type Authenticator,
  type KeyUses,
} from '@token-vault/authentication';
import { createIdempotentAnswers } from '@token-vault/idempotency';
import { createRateLimits, type RateLimits } from '@token-vault/http';
import { errorFields, type Logger } from '@token-vault/observability';
import { systemClock, type IdempotentAnswers } from '@token-vault/operations';
import type { ReadModelWatch } from '@token-vault/read-models';
import type { EventStore } from '@token-vault/event-store';
import type pg from 'pg';
import type { LimitConfig } from './limits.ts';

/** The parts between a request and its handler. */
export interface Edge {
  readonly authenticator: Authenticator;
  readonly keyUses: KeyUses;
  readonly idempotency: IdempotentAnswers;
  readonly rateLimits: RateLimits;
  readonly trustProxy: string | number | false;
  readonly isLenient: boolean;
}

export interface EdgeOptions extends LimitConfig {
  readonly databaseUrl: string;
  readonly readPool: pg.Pool;
  readonly writePool: pg.Pool;
  readonly watch: ReadModelWatch;
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly logger: Logger;
  /** No other process uses this database: one that used it before has ended. */
  readonly isAlone?: boolean;
}

const sweepMs = 10 * 60_000;

/** Opens the edge. The caller must call `close` of the result. */
export async function openEdge(options: EdgeOptions): Promise<Edge & { close(): Promise<void> }> {
  const { databaseUrl, readPool, writePool, watch, store, keyRing, logger } = options;
  const noteUse = createConsoleUse({ store, keyRing, clock: systemClock });
  const keyUses = createKeyUses({ pool: writePool, logger });
  const authenticator = createAuthenticator({
    pool: readPool,
    store,
    keyRing,
    clock: systemClock,
    watch,
    keyUses,
    onConsoleUse: (session) =>
      noteUse(session).catch((error: unknown) =>
        logger.warn(errorFields(error), 'the use of a console session was not noted'),
      ),
  });
  const changes = await listenForAccessChanges({
    connectionString: databaseUrl,
    logger,
    onChange: () => authenticator.forget(),
    onTenantKeysDestroyed: (tenantId) => keyRing.forgetTenant(tenantId),
  });
  const idempotency = createIdempotentAnswers({ pool: writePool, keyRing, clock: systemClock, logger });
  if (options.isAlone) await idempotency.abandonAll();
  const sweep = setInterval(() => {
    idempotency
      .sweep(systemClock.now())
      .catch((error: unknown) => logger.warn(errorFields(error), 'idempotent answers not swept'));
  }, sweepMs).unref();
  return {
    authenticator,
    keyUses,
    idempotency,
    rateLimits: createRateLimits(options.rateLimits),
    trustProxy: options.trustProxy ?? false,
    isLenient: options.isLenient ?? false,
    async close() {
      clearInterval(sweep);
      await Promise.all([changes.close(), keyUses.close()]);
    },
  };
}

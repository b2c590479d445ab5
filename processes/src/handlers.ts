import { createCommandHandlers } from '@token-vault/command-service';
import { createQueryHandlers } from '@token-vault/query-service';
import {
  createAuditTrail,
  createMissLimit,
  systemClock,
  type HandlersOf,
  type Logger,
} from '@token-vault/service-kit';
import type { KeyRing } from '@token-vault/crypto';
import type { Expressions } from '@token-vault/expressions';
import type { ReadModels } from './data.ts';
import type { ReactorParts } from './reactors/parts.ts';

export interface HandlerParts extends ReadModels {
  readonly keyRing: KeyRing;
  readonly expressions: Expressions;
}

/** Of searches and of deduplication together. */
const missLimit = createMissLimit();

/** All that change something. */
export function commandHandlers(
  { store, keyRing, expressions }: HandlerParts,
  { compileCode, outcomes }: ReactorParts,
  options: { readonly egressAllow: readonly string[]; readonly logger: Logger },
): HandlersOf<'command'> {
  return createCommandHandlers({
    store,
    keyRing,
    expressions,
    audit: createAuditTrail(store),
    clock: systemClock,
    logger: options.logger,
    missLimit,
    compileCode,
    invocations: { outcomes, allowsPlainHttp: options.egressAllow.length > 0 },
  });
}

/** All that read. */
export function queryHandlers({
  store,
  keyRing,
  expressions,
  readPool,
  progress,
}: HandlerParts): HandlersOf<'query'> {
  return createQueryHandlers({
    pool: readPool,
    store,
    keyRing,
    expressions,
    audit: createAuditTrail(store),
    missLimit,
    waitForProjections: (position, timeoutMs, names) => progress.reach(position, timeoutMs, names),
  });
}

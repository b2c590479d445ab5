import {
  createCommandHandlers,
  createSignatureCheck,
  type VaultOperator,
} from '@token-vault/command-service';
import { createQueryHandlers, type VaultState } from '@token-vault/query-service';
import { createAuditTrail, systemClock, type HandlersOf } from '@token-vault/operations';
import { seesEverything } from '@token-vault/access';
import type { MissLimit } from '@token-vault/http';
import type { Logger } from '@token-vault/observability';
import type { KeyRing } from '@token-vault/crypto';
import type { Expressions } from '@token-vault/expressions';
import type { ReadModels } from './data.ts';
import type { ReactorParts } from './reactors/parts.ts';
import { actorFinder } from './reactors/principals.ts';

export interface HandlerParts extends ReadModels {
  readonly keyRing: KeyRing;
  readonly expressions: Expressions;
}

/**
 * Runs expressions of the proxy or a reactor. A caller that sees every token learns nothing by their errors, so they are not counted. The time
 * that an expression takes depends on data too: where hits count, each evaluation is a try.
 */
export const guessesOf =
  ({ missLimit }: Pick<HandlerParts, 'missLimit'>): MissLimit['guess'] =>
  async (context, isMiss, work) => {
    if (seesEverything(context.principal, 'token:read')) return work();
    if (!missLimit.countsHits(context)) return missLimit.guess(context, isMiss, work);
    await missLimit.count(context, 1);
    return work();
  };

/** The handlers of operations that change something. */
export function commandHandlers(
  parts: HandlerParts,
  { compileCode, outcomes }: ReactorParts,
  options: {
    readonly egressAllow: readonly string[];
    readonly logger: Logger;
    readonly operator?: VaultOperator;
  },
): HandlersOf<'command'> {
  const { store, keyRing, expressions, missLimit, progress } = parts;
  const findActor = actorFinder(parts);
  return createCommandHandlers({
    store,
    keyRing,
    expressions,
    audit: createAuditTrail(store),
    clock: systemClock,
    logger: options.logger,
    missLimit,
    compileCode,
    waitForProjections: (position, timeoutMs, names) => progress.reach(position, timeoutMs, names),
    ...(options.operator && { operator: options.operator }),
    invocations: { outcomes, allowsPlainHttp: options.egressAllow.length > 0, findActor },
  });
}

/** The handlers of operations that read. */
export function queryHandlers(
  { store, keyRing, expressions, readPool, progress, missLimit }: HandlerParts,
  vault?: VaultState,
): HandlersOf<'query'> {
  return createQueryHandlers({
    pool: readPool,
    store,
    keyRing,
    expressions,
    audit: createAuditTrail(store),
    missLimit,
    signatureCheck: () => createSignatureCheck({ store, keyRing }),
    vault,
    waitForProjections: (position, timeoutMs, names) => progress.reach(position, timeoutMs, names),
  });
}

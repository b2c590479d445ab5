import { UnavailableError } from '@token-vault/contracts';
import { createMissLimit } from '@token-vault/http';
import type { HandlersOf } from '@token-vault/operations';
import { createApplicationHandlers } from './applications/handlers.ts';
import { applicationRoutes } from './applications/routes.ts';
import { createConsoleHandlers } from './console/handlers.ts';
import { consoleRoutes } from './console/routes.ts';
import type { CommandDependencies } from './dependencies.ts';
import { Invocations } from './invocations/handlers.ts';
import { invocationRoutes, redeliveryRoutes } from './invocations/routes.ts';
import { projectionRoutes } from './projections/routes.ts';
import { Proxies } from './proxies/handlers.ts';
import { proxyRoutes } from './proxies/routes.ts';
import { Reactors } from './reactors/handlers.ts';
import { reactorRoutes } from './reactors/routes.ts';
import { createSessionHandlers } from './sessions/handlers.ts';
import { sessionRoutes } from './sessions/routes.ts';
import { createTenantHandlers } from './tenants/handlers.ts';
import { tenantRoutes } from './tenants/routes.ts';
import { createEnlistment } from './tokens/enlistment.ts';
import { TokenErasure } from './tokens/erasure.ts';
import { createFingerprintClaims } from './tokens/fingerprint-claims.ts';
import { createTokenHandlers } from './tokens/handlers.ts';
import { tokenRoutes } from './tokens/routes.ts';
import { CommitTurns } from './transactions/commit-turns.ts';
import { Transactions } from './transactions/handlers.ts';
import { createTransactionOutcomes } from './transactions/outcomes.ts';
import { transactionRoutes } from './transactions/routes.ts';

export type { CommandDependencies } from './dependencies.ts';
export {
  createLostKeys,
  housekeepingMigrations,
  leadWheneverPossible,
  readHousekeepingProgress,
  startHousekeeping,
  type Housekeeping,
  type HousekeepingOptions,
  type LostKey,
  type LostKeys,
  type SweepReport,
} from './housekeeping/index.ts';
export { createConsoleUse } from './console/handlers.ts';
export type { VaultOperator } from './projections/routes.ts';
export { createOwnerDecision } from './invocations/code-owner.ts';
export { createInvocationOutcomes, type InvocationOutcomes } from './invocations/outcomes.ts';
export { createTokenUse, type TokenUse } from './invocations/token-use.ts';
export { createProxyFinder, type ProxyFinder } from './proxies/load.ts';
export { createApplicationReplay } from './applications/replay.ts';
export { createDecisionOnOutputs } from './tokens/outputs.ts';
export { createTokenReplay } from './tokens/replay.ts';
export { createSeenTokens } from './tokens/seen.ts';
export { createSignatureCheck } from './signatures/check.ts';
export type { CodeCheck, CompileCode } from './reactors/code-check.ts';
export {
  createTenantCommands,
  type CreatedTenant,
  type KeyOwner,
  type TenantCommands,
} from './tenants/commands.ts';
export { listTenants, type TenantSummary } from './tenants/list.ts';

const noInvocations = {
  react: () => Promise.reject(new UnavailableError('Reactors cannot be invoked here.')),
};

/** The handlers of all operations that change something. */
export function createCommandHandlers(dependencies: CommandDependencies): HandlersOf<'command'> {
  const { store, keyRing, clock } = dependencies;
  const outcomes = createTransactionOutcomes(store, clock);
  const erasure = new TokenErasure({ store, keyRing, outcomes });
  const enlistment = createEnlistment(outcomes, keyRing);
  const claims = createFingerprintClaims(store);
  const tokenDependencies = {
    missLimit: createMissLimit(),
    ...dependencies,
    outcomes,
    enlistment,
    claims,
    erasure,
  };
  const transactions = new Transactions(
    store,
    outcomes,
    erasure,
    new CommitTurns(dependencies.waitForProjections),
  );
  const { invocations } = dependencies;
  return {
    ...applicationRoutes(createApplicationHandlers(dependencies)),
    ...sessionRoutes(createSessionHandlers(dependencies)),
    ...consoleRoutes(createConsoleHandlers(dependencies)),
    ...projectionRoutes(dependencies),
    ...reactorRoutes(new Reactors(dependencies)),
    ...proxyRoutes(new Proxies(dependencies)),
    ...(invocations ? invocationRoutes(new Invocations({ ...dependencies, ...invocations })) : noInvocations),
    ...redeliveryRoutes(dependencies),
    ...tenantRoutes(createTenantHandlers(dependencies)),
    ...transactionRoutes(transactions),
    ...tokenRoutes(createTokenHandlers(tokenDependencies, transactions)),
  };
}

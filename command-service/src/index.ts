import type { Handlers } from '@token-vault/service-kit';
import { createApplicationHandlers } from './applications/handlers.ts';
import { applicationRoutes } from './applications/routes.ts';
import type { CommandDependencies } from './dependencies.ts';
import { TokenCreation } from './tokens/create.ts';
import { createEnlistment } from './tokens/enlistment.ts';
import { createTokenErasure } from './tokens/erasure.ts';
import { createFingerprintClaims } from './tokens/fingerprint-claims.ts';
import { tokenRoutes } from './tokens/routes.ts';
import { TokenUpdate } from './tokens/update.ts';
import { Transactions } from './transactions/handlers.ts';
import { createTransactionOutcomes } from './transactions/outcomes.ts';
import { transactionRoutes } from './transactions/routes.ts';

export type { CommandDependencies } from './dependencies.ts';
export { createTenantCommands, type TenantCommands } from './tenants/handlers.ts';

/** Every operation that changes something, by the operations table. */
export function createCommandHandlers(dependencies: CommandDependencies): Handlers {
  const { store, keyRing, clock } = dependencies;
  const outcomes = createTransactionOutcomes(store, clock);
  const enlistment = createEnlistment(store, outcomes);
  const claims = createFingerprintClaims(store);
  const tokenDependencies = { ...dependencies, outcomes, enlistment, claims };
  const erasure = createTokenErasure({ store, keyRing, outcomes });
  const transactions = new Transactions(store, erasure);
  return {
    ...applicationRoutes(createApplicationHandlers(store)),
    ...transactionRoutes(transactions),
    ...tokenRoutes({
      dependencies: tokenDependencies,
      keyRing,
      erasure,
      atomic: transactions,
      creation: new TokenCreation(tokenDependencies),
      update: new TokenUpdate(tokenDependencies, erasure),
    }),
  };
}

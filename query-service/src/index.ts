import type { CheckSignatures } from '@token-vault/audit';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Expressions } from '@token-vault/expressions';
import { createMissLimit, type MissLimit } from '@token-vault/http';
import type { AuditTrail, HandlersOf } from '@token-vault/operations';
import type { Pool } from 'pg';
import { createKeyHandlers } from './applications/keys.ts';
import { createApplicationHandlers } from './applications/routes.ts';
import { createAccessHandlers } from './access/routes.ts';
import { createAuditHandlers } from './audit/routes.ts';
import { createConsoleHandlers } from './console/routes.ts';
import type { VaultState } from './console/vault-state.ts';
import { createFairReads } from './fair-reads.ts';
import { createInvocationHandlers } from './invocations/routes.ts';
import { createLogHandlers, type WaitForProjections } from './logs/routes.ts';
import { createProxyHandlers } from './proxies/routes.ts';
import { createReactorHandlers } from './reactors/routes.ts';
import { createTenantHandlers } from './tenants/routes.ts';
import { createDetokenize } from './tokens/detokenize.ts';
import { createLargePages } from './tokens/large-pages.ts';
import { createTokenHandlers } from './tokens/routes.ts';
import { createSingleReads } from './tokens/single-reads.ts';

export type { VaultState } from './console/vault-state.ts';
export type { WaitForProjections } from './logs/routes.ts';
export {
  createTokenExport,
  type ExportedToken,
  type ExportPage,
  type ExportTokens,
} from './tokens/export.ts';

export interface QueryDependencies {
  /** The pool of the read models' database. */
  readonly pool: Pool;
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
  /** Gives the check of signatures for one verification of the log. */
  readonly signatureCheck: () => CheckSignatures;
  readonly expressions: Expressions;
  /** When absent, the service makes a limit of its own. */
  readonly missLimit?: MissLimit;
  readonly waitForProjections?: WaitForProjections | undefined;
  /** The state of the whole vault. Absent in a process that does not know it. */
  readonly vault?: VaultState | undefined;
}

/** The handlers of the operations that read. The audit record of a read is durable before the answer leaves. */
export function createQueryHandlers(dependencies: QueryDependencies): HandlersOf<'query'> {
  const { pool, keyRing } = dependencies;
  const parts = {
    ...dependencies,
    reads: createFairReads(pool),
    largePages: createLargePages(),
    singleReads: createSingleReads(pool, keyRing),
  };
  return {
    ...createTokenHandlers({ missLimit: createMissLimit(), ...parts }),
    ...createDetokenize(parts),
    ...createApplicationHandlers(parts),
    ...createKeyHandlers(parts),
    ...createAccessHandlers(parts),
    ...createAuditHandlers(parts),
    ...createConsoleHandlers(parts),
    ...createLogHandlers(parts),
    ...createReactorHandlers(parts),
    ...createProxyHandlers(parts),
    ...createInvocationHandlers(parts),
    ...createTenantHandlers(parts),
  };
}

type OperatorLists = 'listApplications' | 'listApplicationKeys' | 'listProxies' | 'listInvocations';

/** The lists of an operator, from the command line. They show no tokens, so they evaluate no expressions. */
export function createOperatorQueries(
  dependencies: Omit<QueryDependencies, 'expressions' | 'missLimit' | 'signatureCheck' | 'vault'>,
): Pick<HandlersOf<'query'>, OperatorLists> {
  const parts = { ...dependencies, reads: createFairReads(dependencies.pool) };
  const { listApplications } = createApplicationHandlers(parts);
  const { listApplicationKeys } = createKeyHandlers(parts);
  const { listProxies } = createProxyHandlers(parts);
  const { listInvocations } = createInvocationHandlers(parts);
  return { listApplications, listApplicationKeys, listProxies, listInvocations };
}

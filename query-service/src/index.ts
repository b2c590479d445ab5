import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Expressions } from '@token-vault/expressions';
import { createMissLimit, type AuditTrail, type HandlersOf, type MissLimit } from '@token-vault/service-kit';
import type { Pool } from 'pg';
import { createApplicationHandlers } from './applications/routes.ts';
import { createFairReads } from './fair-reads.ts';
import { createLogHandlers, type WaitForProjections } from './logs/routes.ts';
import { createReactorHandlers } from './reactors/routes.ts';
import { createTenantHandlers } from './tenants/routes.ts';
import { createTokenHandlers } from './tokens/routes.ts';

export type { WaitForProjections } from './logs/routes.ts';
export {
  createTokenExport,
  type ExportedToken,
  type ExportPage,
  type ExportTokens,
} from './tokens/export.ts';

export interface QueryDependencies {
  /** Of the read models. */
  readonly pool: Pool;
  readonly store: Pick<EventStore, 'head'>;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
  /** The one of the process; of its own when absent. */
  readonly missLimit?: MissLimit;
  readonly waitForProjections?: WaitForProjections | undefined;
}

/** The operations that read. Each is recorded durably before anything of what was read is answered. */
export function createQueryHandlers(dependencies: QueryDependencies): HandlersOf<'query'> {
  const parts = { ...dependencies, reads: createFairReads(dependencies.pool) };
  return {
    ...createTokenHandlers({ missLimit: createMissLimit(), ...parts }),
    ...createApplicationHandlers(parts),
    ...createLogHandlers(parts),
    ...createReactorHandlers(parts),
    ...createTenantHandlers(parts),
  };
}

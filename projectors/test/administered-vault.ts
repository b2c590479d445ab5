import { beforeEach } from 'vitest';
import { createProjectionAdmin, type ProjectionAdmin } from '../src/admin.ts';
import { tokenCreated } from './events.ts';
import { openVault, type Vault } from './vault.ts';

/** A vault of one test, and the commands for its read models. */
export interface AdministeredVault extends Vault {
  readonly admin: ProjectionAdmin;
  /** Adds a row to the live table of tokens that the log does not give. */
  plantToken(): Promise<unknown>;
  isPlanted(): Promise<boolean>;
  /** The schemas of the live read model of tokens and of its rebuilds. */
  schemas(): Promise<string[]>;
  statusOf(name: string): Promise<Awaited<ReturnType<ProjectionAdmin['status']>>[number] | undefined>;
}

/** Opens a vault for each test, and closes it after the test. */
export function useAdministeredVault(keep: (vault: AdministeredVault) => void): void {
  beforeEach(async () => {
    const vault = await openVault();
    keep(administered(vault));
    return () => vault.close();
  });
}

function administered(vault: Vault): AdministeredVault {
  const admin = createProjectionAdmin({ store: vault.store, connectionString: vault.url, maxBatch: 10 });
  return {
    ...vault,
    admin,
    plantToken: () =>
      vault.rows(`begin; set local search_path = rm_tokens;
        insert into token (tenant_id, id, type, data, container, created_by, created_at, seq, ordinal)
        select tenant_id, 'planted', type, data, container, created_by, created_at, 0, 0 from token limit 1;
        commit`),
    isPlanted: async () => (await vault.rows(`select from rm_tokens.token where id = 'planted'`)).length > 0,
    async schemas() {
      const found = await vault.rows<{ nspname: string }>(
        `select nspname from pg_namespace where nspname like 'rm\\_tokens%' order by 1`,
      );
      return found.map(({ nspname }) => nspname);
    },
    statusOf: async (name) => (await admin.status()).find((status) => status.name === name),
  };
}

/** Events that create that many tokens. */
export const many = (count: number, prefix = 'token') =>
  Array.from({ length: count }, (_, index) =>
    tokenCreated(`${prefix}-${index}`, { metadata: { n: String(index % 3) } }),
  );

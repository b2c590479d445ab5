import type { ConsoleOverview, VaultOperations } from '@token-vault/contracts';

/** What a process knows of the vault as a whole. */
export interface VaultState {
  /** Whether the tenant is the one that operates the vault (docs/reference/console.md). */
  isOperator(tenantId: string): Promise<boolean>;
  projections(): Promise<ConsoleOverview['projections']>;
  describe(): Promise<Omit<VaultOperations, 'at'>>;
}

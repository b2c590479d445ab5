import type { ConsoleOverview, VaultOperations } from '@token-vault/contracts';

/** The state of the whole vault, as far as one process knows it. */
export interface VaultState {
  /** Whether the tenant is the one that operates the vault (docs/reference/console.md). */
  isOperator(tenantId: string): Promise<boolean>;
  projections(): Promise<ConsoleOverview['projections']>;
  describe(): Promise<Omit<VaultOperations, 'at'>>;
}

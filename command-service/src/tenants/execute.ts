import { streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { Attempts } from '../aggregates/attempts.ts';
import { execute, type Executed, type Execution } from '../aggregates/decider.ts';
import { newKeyIds, tenantDecider, type TenantCommand } from './decider.ts';
import { tenantSigner, type TenantState } from './state.ts';

/** Runs a command on the tenant's own stream and signs its events. The keys of the tenant must exist. */
export async function executeTenant(options: {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes' | 'destroyKeys'>;
  readonly tenantId: string;
  readonly command: Execution<TenantState, TenantCommand>['command'];
  readonly event: Execution<TenantState, TenantCommand>['event'];
  readonly attempts?: Attempts;
}): Promise<Executed<TenantState>> {
  const { store, keyRing, tenantId, ...given } = options;
  const stream = streams.tenant(tenantId);
  const signing = { signer: tenantSigner, hashes: () => keyRing.hashes(tenantId) };
  const destroy = (keyIds: readonly string[]) => keyRing.destroyKeys(tenantId, keyIds);
  const newKeys = { idsOf: newKeyIds, destroy };
  return execute({ ...given, store, stream, decider: tenantDecider, signing, newKeys });
}

import { streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import { execute, type Execution } from '../aggregates/decider.ts';
import { tenantDecider, type TenantCommand } from './decider.ts';
import { tenantSigner, type TenantState } from './state.ts';

/** A command of a tenant's own stream, its events signed. The tenant's keys must be there. */
export async function executeTenant(options: {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly tenantId: string;
  readonly command: TenantCommand;
  readonly event: Execution<TenantState, TenantCommand>['event'];
}): Promise<Position | undefined> {
  const { store, keyRing, tenantId, command, event } = options;
  const stream = streams.tenant(tenantId);
  const signing = { signer: tenantSigner, hashes: () => keyRing.hashes(tenantId) };
  const { position } = await execute({ store, stream, decider: tenantDecider, command, event, signing });
  return position;
}

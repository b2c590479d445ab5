import { startPosition, type EventStore } from '@token-vault/event-store';

const bytesOfDigest = 8;

interface Tenant {
  /** The number of events that a checkpoint can cover. */
  events: number;
  /** The number of events that the checkpoints so far have covered. */
  sealed: number;
}

/**
 * Reads a sealed log and counts the events of each tenant that its checkpoints cover: exactly one checkpoint must cover each event. Gives the
 * differences. This check shares no code with the verification of the vault.
 */
export async function notSealedOnce(store: EventStore): Promise<string[]> {
  const tenants = new Map<string, Tenant>();
  const wrong: string[] = [];
  for await (const event of store.readAll(startPosition)) {
    const { tenant_id: tenantId } = event.metadata;
    const tenant = tenants.get(tenantId) ?? { events: 0, sealed: 0 };
    tenants.set(tenantId, tenant);
    if (event.type !== 'AuditCheckpointSigned') tenant.events += 1;
    else {
      const { count, digests } = event.data;
      const covered = Buffer.from(digests, 'base64url').length / bytesOfDigest;
      if (count - covered !== tenant.sealed)
        wrong.push(
          `${tenantId}: events ${count - covered + 1} to ${count} are sealed after ${tenant.sealed}`,
        );
      tenant.sealed = count;
    }
  }
  for (const [tenantId, { events, sealed }] of tenants)
    if (events > sealed) wrong.push(`${tenantId}: ${sealed} of ${events} events are sealed`);
  return wrong;
}

import {
  AuditCheckpointSigned,
  foreignKind,
  revisionOf,
  signedEventTypes,
  streams,
} from '@token-vault/contracts';
import type { EventStore, StoredEvent } from '@token-vault/event-store';
import { nameOf, type Finding } from './compare.ts';
import { parseJson } from './parse-json.ts';
import { tenantOf } from './tenant-of.ts';

/** Why an event cannot be in its place, of a signed entity or a transaction (ADR 20), or among the checkpoints. Undefined for all other events. */
export function misplacementOf(event: StoredEvent, tenantId: string): string | undefined {
  const { type, stream, revision } = event;
  if (stream === streams.audit(tenantId) && type !== AuditCheckpointSigned.type) return 'is no checkpoint';
  const metadata = { tenant_id: tenantId };
  if (!signedEventTypes.has(type) && !foreignKind({ type, data: {}, metadata }, stream)) return undefined;
  const parsed = parseJson(event.data);
  const data = typeof parsed === 'object' && parsed !== null ? parsed : {};
  const foreign = foreignKind({ type, data, metadata }, stream);
  if (foreign) return `is not of the ${foreign} of this stream`;
  const { signature } = data as { readonly signature?: unknown };
  const signedAt = typeof signature === 'string' ? revisionOf(signature) : undefined;
  return signedAt === undefined || signedAt === revision ? undefined : `was signed for revision ${signedAt}`;
}

/** Events that a writer of the database stored at positions that the store does not give. They are not part of the log, so no checkpoint covers them. */
export async function* findOutside(
  store: Pick<EventStore, 'readStoredOutside'>,
): AsyncGenerator<Finding, void> {
  for await (const events of store.readStoredOutside?.() ?? [])
    for (const event of events) {
      const problem = `${nameOf(event)} is outside the log: the vault stores no event at this position`;
      yield { position: event.position, tenantId: tenantOf(event) ?? '-', problem };
    }
}

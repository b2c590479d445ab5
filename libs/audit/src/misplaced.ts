import {
  AuditCheckpointSigned,
  foreignKind,
  revisionOf,
  signedEventTypes,
  streams,
} from '@token-vault/contracts';
import type { StoredEvent } from '@token-vault/event-store';
import { parseJson } from './parse-json.ts';

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

import { ownStreamOf, revisionOf, signedEventTypes } from '@token-vault/contracts';
import type { StoredEvent } from '@token-vault/event-store';
import { parseJson } from './parse-json.ts';

/** Why an event of a signed entity cannot be in its place (ADR 20). Undefined for all other events. */
export function misplacementOf(event: StoredEvent, tenantId: string): string | undefined {
  const { type, stream, revision } = event;
  const metadata = { tenant_id: tenantId };
  if (!signedEventTypes.has(type) && !ownStreamOf({ type, data: {}, metadata })) return undefined;
  const parsed = parseJson(event.data);
  const data = typeof parsed === 'object' && parsed !== null ? parsed : {};
  const own = ownStreamOf({ type, data, metadata });
  if (own && own.stream !== stream) return `is not of the ${own.kind} of this stream`;
  const { signature } = data as { readonly signature?: unknown };
  const signedAt = typeof signature === 'string' ? revisionOf(signature) : undefined;
  return signedAt === undefined || signedAt === revision ? undefined : `was signed for revision ${signedAt}`;
}

import { randomUUID } from 'node:crypto';
import {
  eventRegistry,
  type DataOf,
  type EventMetadata,
  type SealedValue,
  type VaultEvent,
  type VaultEventType,
} from '@token-vault/contracts';

export const tenantId = '00000000-0000-4000-8000-000000000001';
export const otherTenantId = '00000000-0000-4000-8000-000000000002';
const applicationId = '00000000-0000-4000-8000-0000000000a1';

export type MetadataOf = Partial<EventMetadata>;

/** A valid event. A test gives only the fields that it is about. */
export function event<Type extends VaultEventType>(
  type: Type,
  data: DataOf<Type>,
  metadata: MetadataOf = {},
): VaultEvent {
  const { version = 1 } = eventRegistry.definitions.find((definition) => definition.type === type) ?? {};
  return {
    id: randomUUID(),
    type,
    version,
    data,
    metadata: {
      tenant_id: tenantId,
      actor: { kind: 'application', id: applicationId },
      trace_id: 'trace',
      correlation_id: 'correlation',
      occurred_at: '2030-01-01T10:20:30.000Z',
      ...metadata,
    },
  } as VaultEvent;
}

export const sealed = (name: string) =>
  `sv1.00000000-0000-4000-8000-00000000000f.${Buffer.from(name).toString('base64url')}` as SealedValue;

const tokenContent = (tokenId: string, changes: Partial<DataOf<'TokenCreated'>> = {}) => ({
  token_id: tokenId,
  token_type: 'token',
  data: sealed(tokenId),
  containers: ['/general/high/'],
  ...changes,
});

export const tokenCreated = (
  tokenId: string,
  changes: Partial<DataOf<'TokenCreated'>> = {},
  metadata: MetadataOf = {},
): VaultEvent => event('TokenCreated', tokenContent(tokenId, changes), metadata);

export const tokenUpdated = (
  tokenId: string,
  changes: Partial<DataOf<'TokenCreated'>> = {},
  metadata: MetadataOf = {},
): VaultEvent => event('TokenUpdated', tokenContent(tokenId, changes), metadata);

export const tokenDeleted = (tokenId: string, metadata: MetadataOf = {}): VaultEvent =>
  event('TokenDeleted', { token_id: tokenId, token_type: 'token', key_ids: [] }, metadata);

export const tenantCreated = (id = tenantId): VaultEvent =>
  event(
    'TenantCreated',
    { tenant_id: id, name: 'Acme', plan: 'enterprise', settings: {} },
    { tenant_id: id },
  );

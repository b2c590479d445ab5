import type { StoredEvent } from '@token-vault/event-store';
import { parseJson } from './parse-json.ts';

const tenantFirst = '{"tenant_id":"';
const uuidLength = 36;
const uuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/**
 * Finds the tenant where the vault writes it, first and once: parsing the rest of the metadata would cost more than the hash. If an event
 * names two tenants, which the vault never writes, the last one counts, as for any JSON parser. Undefined when no possible tenant is named:
 * a writer that bypasses the vault may store any bytes.
 */
export function tenantOf({ metadata }: Pick<StoredEvent, 'metadata'>): string | undefined {
  const end = tenantFirst.length + uuidLength;
  const isPlain =
    metadata.startsWith(tenantFirst) && metadata[end] === '"' && !metadata.includes('tenant_id', end);
  if (isPlain && !metadata.includes('\\')) return asTenantId(metadata.slice(tenantFirst.length, end));
  const { tenant_id: tenantId } = (parseJson(metadata) ?? {}) as { readonly tenant_id?: unknown };
  return typeof tenantId === 'string' ? asTenantId(tenantId) : undefined;
}

const asTenantId = (text: string): string | undefined => (uuid.test(text) ? text : undefined);

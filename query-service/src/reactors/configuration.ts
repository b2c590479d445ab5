import { isErased, type KeyRing, type Secret } from '@token-vault/crypto';
import type { ReactorRow } from './queries.ts';

type Configuration = Record<string, string>;

/** Opens a reactor's configuration. Undefined when the reactor was deleted meanwhile. */
export async function openConfiguration(
  keyRing: Pick<KeyRing, 'open'>,
  { tenant_id: tenantId, id, configuration }: ReactorRow,
): Promise<Secret<Configuration> | undefined> {
  try {
    const context = { tenantId, entity: `reactor:${id}`, field: 'configuration' };
    return await keyRing.open<Configuration>(context, configuration);
  } catch (error) {
    if (isErased(error)) return undefined;
    throw error;
  }
}

import { isErased, type KeyRing, type Secret } from '@token-vault/crypto';
import type { ReactorRow } from './queries.ts';

type Configuration = Record<string, string>;

/** Opens the configuration of a reactor or a proxy. Undefined when it was deleted meanwhile. */
export async function openConfiguration(
  keyRing: Pick<KeyRing, 'open'>,
  kind: 'reactor' | 'proxy',
  { tenant_id: tenantId, id, configuration }: Pick<ReactorRow, 'tenant_id' | 'id' | 'configuration'>,
): Promise<Secret<Configuration> | undefined> {
  try {
    const context = { tenantId, entity: `${kind}:${id}`, field: 'configuration' };
    return await keyRing.open<Configuration>(context, configuration);
  } catch (error) {
    if (isErased(error)) return undefined;
    throw error;
  }
}

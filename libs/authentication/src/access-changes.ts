import { openListener } from '@token-vault/postgres';
import type pg from 'pg';
import { errorFields, type Logger } from '@token-vault/observability';

export interface AccessChangesOptions {
  readonly connectionString: string;
  readonly logger: Logger;
  /** A key, a rule, a session or a tenant may have changed. Also called whenever notifications may have been missed. */
  readonly onChange: () => void;
  /** Another replica has destroyed the keys of a tenant. */
  readonly onTenantKeysDestroyed?: (tenantId: string) => void;
  readonly retryMs?: number;
}

export interface AccessChanges {
  close(): Promise<void>;
}

/**
 * Listens for `access_changed` and `tenant_keys_destroyed`. The read models of authentication notify the first when their changes commit;
 * key rings notify the second. The listener has a connection of its own, which is made again when lost. Until then the short lifetime of
 * cache entries limits the delay.
 */
export async function listenForAccessChanges(options: AccessChangesOptions): Promise<AccessChanges> {
  const { connectionString, logger, onChange, onTenantKeysDestroyed, retryMs = 1000 } = options;
  let client: pg.Client | undefined;
  let retry: NodeJS.Timeout | undefined;
  let isClosed = false;

  async function connect(): Promise<void> {
    let isLost = false;
    let next: pg.Client | undefined;
    const lost = () => {
      if (isLost) return;
      isLost = true;
      if (client === next) client = undefined;
      onChange();
      next?.end().catch(() => undefined);
      if (!isClosed) retry = setTimeout(() => void connect(), retryMs).unref();
    };
    const settings = { connectionString, application_name: 'vault-access-changes' };
    const channels = {
      tenant_keys_destroyed: (tenantId: string) => onTenantKeysDestroyed?.(tenantId),
      access_changed: () => onChange(),
    };
    try {
      next = await openListener(settings, channels, lost);
      if (isLost) return;
      client = next;
      // Changes may have been missed while no connection listened.
      onChange();
      if (isClosed) await next.end();
    } catch (error) {
      logger.warn(errorFields(error), 'notifications of access changes are not received');
      lost();
    }
  }

  await connect();
  return {
    async close() {
      isClosed = true;
      clearTimeout(retry);
      await client?.end().catch(() => undefined);
    },
  };
}

import pg from 'pg';
import { errorFields, type Logger } from './logger.ts';

export interface AccessChangesOptions {
  readonly connectionString: string;
  readonly logger: Logger;
  /** A key, a rule, a session or a tenant may have changed; also called whenever notifications may have been missed. */
  readonly onChange: () => void;
  /** Another replica has destroyed the keys of a tenant. */
  readonly onTenantKeysDestroyed?: (tenantId: string) => void;
  readonly retryMs?: number;
}

export interface AccessChanges {
  close(): Promise<void>;
}

/**
 * Hears `access_changed`, which the read models that callers are made of notify as their changes are committed, and
 * `tenant_keys_destroyed`, which key rings do. On a
 * connection of its own that is made again when lost; until then the short life of what is cached has to do.
 */
export async function listenForAccessChanges(options: AccessChangesOptions): Promise<AccessChanges> {
  const { connectionString, logger, onChange, onTenantKeysDestroyed, retryMs = 1000 } = options;
  let client: pg.Client | undefined;
  let retry: NodeJS.Timeout | undefined;
  let isClosed = false;

  async function connect(): Promise<void> {
    const next = new pg.Client({
      connectionString,
      application_name: 'vault-access-changes',
      connectionTimeoutMillis: 5_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    });
    let isLost = false;
    const lost = () => {
      if (isLost) return;
      isLost = true;
      if (client === next) client = undefined;
      onChange();
      next.end().catch(() => undefined);
      if (!isClosed) retry = setTimeout(() => void connect(), retryMs).unref();
    };
    const hear = ({ channel, payload = '' }: pg.Notification) => {
      if (channel === 'access_changed') onChange();
      else onTenantKeysDestroyed?.(payload);
    };
    next.on('error', lost).on('end', lost).on('notification', hear);
    try {
      await next.connect();
      await next.query('listen tenant_keys_destroyed');
      await next.query('listen access_changed');
      client = next;
      // What was changed while nobody listened.
      onChange();
      if (isClosed) await next.end();
    } catch (error) {
      logger.warn(errorFields(error), 'changes of access are not heard');
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

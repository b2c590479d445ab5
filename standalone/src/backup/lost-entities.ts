import { createLostKeys, type LostKey } from '@token-vault/command-service';
import { aliased } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { systemClock } from '@token-vault/operations';
import { VaultClient } from '@token-vault/postgres';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { linesOf } from './lines.ts';

const token = aliased('tokens', 'token', 't');
const reactor = aliased('reactors', 'reactor', 'r');
const proxy = aliased('proxies', 'proxy', 'p');
const tenant = aliased('tenants', 'tenant', 't');

/** `sv1.<key id>.…`: libs/crypto/src/sealed-value.ts. */
const keyIn = (column: string): string => `substring(${column} from 5 for 36)::uuid`;

/** The data keys that the read models need and the key ring does not have. Ids of tokens have no character that COPY would escape. */
const lostKeys = `copy (
  with needed (key_id, tenant_id, entity) as (
    select ${keyIn(token.data)}, ${token.tenant_id}, 'token:' || ${token.id} from ${token.source}
    union all
    select ${keyIn(token.cvc)}, ${token.tenant_id}, 'token:' || ${token.id} from ${token.source} where ${token.cvc} is not null
    union all
    select ${keyIn(reactor.configuration)}, ${reactor.tenant_id}, 'reactor:' || ${reactor.id} from ${reactor.source}
    union all
    select ${keyIn(proxy.configuration)}, ${proxy.tenant_id}, 'proxy:' || ${proxy.id} from ${proxy.source}
  )
  select key_id, tenant_id, entity from needed n
  where not exists (select from key_ring.data_key k where k.id = n.key_id)
) to stdout`;

const lostTenants = `select tenant_id::text as id from key_ring.destroyed_tenant
  union
  select ${tenant.id}::text from ${tenant.source}
  where not ${tenant.is_deleted} and not exists (select from key_ring.tenant_key k where k.tenant_id = ${tenant.id})`;

async function* keysLost(url: string): AsyncGenerator<readonly LostKey[], void> {
  const client = new VaultClient({ connectionString: url, application_name: 'vault restore' });
  client.on('error', () => {});
  await client.connect();
  try {
    for await (const lines of linesOf(client.query(copyTo(lostKeys)))) yield lines.map(lostKeyIn);
  } finally {
    await client.end().catch(() => undefined);
  }
}

function lostKeyIn(line: string): LostKey {
  const [keyId = '', tenantId = '', entity = ''] = line.split('\t');
  return { keyId, tenantId, entity };
}

const atOnce = 64;

/**
 * Ends, by an event, each token, cvc, reactor, proxy and tenant of the read models whose key is gone: the log does not have these deletions,
 * and it must match the restored keys. Gives the number of events.
 */
export async function endEntitiesWithoutKey(options: {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes' | 'destroyKeys'>;
  readonly pool: pg.Pool;
  readonly url: string;
  readonly signal: AbortSignal;
}): Promise<number> {
  const { store, keyRing, pool, url, signal } = options;
  const lost = createLostKeys({ store, keyRing, clock: systemClock, task: 'restore' });
  let ended = 0;
  const count = (isEnded: boolean) => void (ended += isEnded ? 1 : 0);
  const { rows } = await pool.query<{ id: string }>(lostTenants);
  const gone = new Set(rows.map(({ id }) => id));
  for (const tenantId of gone) count(await lost.recordTenant(tenantId));
  for await (const batch of keysLost(url)) {
    const left = batch.filter(({ tenantId }) => !gone.has(tenantId));
    for (let at = 0; at < left.length; at += atOnce) {
      signal.throwIfAborted();
      const recorded = left.slice(at, at + atOnce).map((key) => lost.record(key));
      for (const isEnded of await Promise.all(recorded)) count(isEnded);
    }
  }
  return ended;
}

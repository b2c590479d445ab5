import { tokenStatement } from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import { createHash } from 'node:crypto';
import type { Pool, PoolClient } from 'pg';

export interface Scale {
  readonly tokens: number;
  /** Of the log. */
  readonly entries: number;
}

export interface SeededTenant {
  readonly id: string;
  /** Readers refuse rows that the tenant's key has not signed (ADR 20). */
  readonly hashes: Pick<TenantHashes, 'sign'>;
}

const batch = 10_000;
const startedAt = Date.parse('2030-01-01T00:00:00Z');

/**
 * Rows as the projections would write them: a million events would take longer to append than to measure. Sealed values are as
 * long as those of cards, and cannot be opened.
 */
export async function seedReadModels(pool: Pool, tenant: SeededTenant, scale: Scale): Promise<void> {
  const client = await pool.connect();
  try {
    await seedTokens(client, tenant, scale.tokens);
    await seedLookups(client, tenant.id);
    await seedLog(client, tenant.id, scale.entries);
    for (const table of [
      'rm_tokens.token',
      'rm_tokens.token_metadata',
      'rm_tokens.token_search_index',
      'rm_tokens.token_count',
      'rm_log.entry',
      'rm_log.entry_count',
      'rm_log.entry_kind_count',
      'rm_log.actor_kind_count',
      'rm_log_summary.minute_count',
      'rm_log_summary.hour_count',
      'rm_log_summary.active_token',
    ]) {
      await client.query(`vacuum (analyze) ${table}`);
    }
  } finally {
    // The session has another search path, so it is not returned to the pool.
    client.release(true);
  }
}

const types = [
  'card',
  'token',
  'bank',
  'card_number',
  'us_bank_account_number',
  'us_bank_routing_number',
  'social_security_number',
  'employer_id_number',
] as const;
const containers = ['/pci/high/', '/general/high/', '/bank/high/', '/pii/high/', '/bank/low/'] as const;
const mask = '"{{ data | reveal_last: 4 }}"';
const data = `sv1.00000000-0000-0000-0000-000000000000.${'A'.repeat(160)}`;

/** As PostgreSQL writes `md5(text)::uuid`. */
const uuidOf = (text: string): string =>
  createHash('md5')
    .update(text)
    .digest('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');

function expiryOf(n: number): string | null {
  if (n % 1000 === 0) return '2000-01-01T00:00:00.000Z';
  return n % 100 === 0 ? '2999-01-01T00:00:00.000Z' : null;
}

/** Eight types in six containers; one in a hundred expires, one in a thousand has; each has a colour and two search indexes. */
function tokenAt(n: number, hashes: SeededTenant['hashes']) {
  const id = uuidOf(String(n));
  const type = types[n % types.length] ?? 'token';
  const container = n % 10_000 === 0 ? '/rare/' : (containers[n % containers.length] ?? '/pci/high/');
  const expiresAt = expiryOf(n);
  const statement = tokenStatement({
    ...{ id, type, data, mask, container, expiresAt },
    ...{
      cvc: null,
      cvcExpiresAtMs: null,
      searchIndexes: null,
      fingerprint: null,
      fingerprintExpression: null,
      setWithoutSight: null,
      createdBy: 'seed',
      createdAt: new Date(startedAt + n * 1_000).toISOString(),
      modifiedBy: null,
      modifiedAt: null,
    },
  });
  return { n, id, type, container, expiry: expiresAt, signature: hashes.sign(statement, 0) };
}

async function seedTokens(client: PoolClient, { id, hashes }: SeededTenant, tokens: number): Promise<void> {
  await client.query('set search_path = rm_tokens');
  for (let done = 0; done < tokens; done += batch) {
    const count = Math.min(batch, tokens - done);
    const rows = Array.from({ length: count }, (_, index) => tokenAt(done + index + 1, hashes));
    await client.query(
      `insert into token (tenant_id, id, type, data, mask, container, metadata, expires_at, expires_at_text, created_by,
         created_at, seq, ordinal, signature)
       select $1, id, type, $2, $3, container, '{"color":"blue"}', expiry::timestamptz, expiry, 'seed',
         timestamptz '2030-01-01 00:00:00Z' + n * interval '1 second', n, 0, signature
       from json_to_recordset($4) as t (n integer, id text, type text, container text, expiry text, signature text)`,
      [id, data, mask, JSON.stringify(rows)],
    );
  }
}

async function seedLookups(client: PoolClient, tenantId: string): Promise<void> {
  await client.query(
    `insert into token_metadata (tenant_id, token_id, key, value)
     select tenant_id, id, 'customer', (seq / 10)::text from token where tenant_id = $1
     union all select tenant_id, id, 'color', (array['red','green','blue'])[1 + seq % 3] from token where tenant_id = $1`,
    [tenantId],
  );
  await client.query(
    `insert into token_search_index (tenant_id, token_id, hash)
     select tenant_id, id, md5('full' || seq) from token where tenant_id = $1
     union all select tenant_id, id, md5('last4' || seq % 10000) from token where tenant_id = $1`,
    [tenantId],
  );
}

/**
 * Nine in ten tell of tokens, one in a hundred thousand of the tenant; a new one every ten seconds. At positions before the first of
 * the log: an entry at the position of a real event would stop the projection, and a stopped projection answers 503 (ADR 21).
 */
async function seedLog(client: PoolClient, tenantId: string, entries: number): Promise<void> {
  await client.query('set search_path = rm_log');
  await client.query(
    `insert into entry (tenant_id, seq, ordinal, actor_id, actor_type, entity_type, entity_id, operation, transform,
       request, trace_id, message, created_at, size)
     select $1, n - $2::bigint, 1, 'seed', 'application',
       case when n % 100000 = 0 then 'tenant' when n % 10 = 0 then 'application' else 'token' end,
       md5((n / 5)::text)::uuid::text, case when n % 50000 = 7 then 'denied' else 'read' end,
       case when n % 10 = 0 then null when n % 50 = 1 then 'reveal' else 'mask' end,
       case when n % 100000 = 0 then 'getTenant' when n % 10 = 0 then 'getApplication' else 'getToken' end,
       n::text, 'Token retrieved',
       timestamptz '2029-01-01' + n * interval '10 seconds', 1
     from generate_series(1, $2::integer) n`,
    [tenantId, entries],
  );
  for (const grain of ['minute', 'hour'])
    await client.query(
      `insert into rm_log_summary.${grain}_count
         (tenant_id, actor_id, entity_type, operation, transform, request, at, count)
       select tenant_id, actor_id, entity_type, operation, coalesce(transform, ''), coalesce(request, ''),
         date_trunc('${grain}', created_at, 'UTC'), count(*)
       from entry where tenant_id = $1 and actor_id = 'seed' group by 1, 2, 3, 4, 5, 6, 7`,
      [tenantId],
    );
  // A trigger counts them.
  await client.query('set search_path = rm_log_summary');
  await client.query(
    `insert into active_token (tenant_id, month, token_id)
     select distinct tenant_id, date_trunc('month', created_at, 'UTC'), entity_id
     from rm_log.entry where tenant_id = $1 and actor_id = 'seed' and entity_type = 'token' and operation = 'read'`,
    [tenantId],
  );
}

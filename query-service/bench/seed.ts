import type { Pool, PoolClient } from 'pg';

export interface Scale {
  readonly tokens: number;
  /** Of the log. */
  readonly entries: number;
}

/**
 * Rows as the projections would write them, made by the database itself: a million events would take longer to append than
 * to measure. Sealed values are as long as those of cards, and cannot be opened.
 */
export async function seedReadModels(pool: Pool, tenantId: string, scale: Scale): Promise<void> {
  const client = await pool.connect();
  try {
    await seedTokens(client, tenantId, scale.tokens);
    await seedLog(client, tenantId, scale.entries);
    for (const table of [
      'rm_tokens.token',
      'rm_tokens.token_metadata',
      'rm_tokens.token_search_index',
      'rm_tokens.token_count',
      'rm_log.entry',
      'rm_log.entry_count',
      'rm_log.entry_kind_count',
      'rm_log.actor_kind_count',
    ]) {
      await client.query(`vacuum (analyze) ${table}`);
    }
  } finally {
    // Its search path is not what others expect.
    client.release(true);
  }
}

/** Eight types in six containers; one in a hundred expires, one in a thousand has; each has a colour and two search indexes. */
async function seedTokens(client: PoolClient, tenantId: string, tokens: number): Promise<void> {
  await client.query('set search_path = rm_tokens');
  await client.query(
    `insert into token (tenant_id, id, type, data, mask, container, metadata, expires_at, created_by, created_at, seq, ordinal)
     select $1, md5(n::text)::uuid::text,
       (array['card','token','bank','card_number','us_bank_account_number','us_bank_routing_number',
              'social_security_number','employer_id_number'])[1 + n % 8],
       'sv1.00000000-0000-0000-0000-000000000000.' || repeat('A', 160), '"{{ data | reveal_last: 4 }}"',
       (array['/pci/high/','/general/high/','/bank/high/','/pii/high/','/bank/low/','/rare/'])[
         case when n % 10000 = 0 then 6 else 1 + n % 5 end],
       '{"color":"blue"}',
       case when n % 1000 = 0 then timestamptz '2000-01-01' when n % 100 = 0 then timestamptz '2999-01-01' end,
       'seed', timestamptz '2030-01-01' + n * interval '1 second', n, 0
     from generate_series(1, $2::integer) n`,
    [tenantId, tokens],
  );
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

/** Nine in ten tell of tokens, one in a hundred thousand of the tenant; a new one every ten seconds. */
async function seedLog(client: PoolClient, tenantId: string, entries: number): Promise<void> {
  await client.query('set search_path = rm_log');
  await client.query(
    `insert into entry (tenant_id, seq, ordinal, actor_id, actor_type, entity_type, entity_id, operation, transform,
       request, trace_id, message, created_at)
     select $1, n, 1, 'seed', 'application',
       case when n % 100000 = 0 then 'tenant' when n % 10 = 0 then 'application' else 'token' end,
       md5((n / 5)::text)::uuid::text, case when n % 50000 = 7 then 'denied' else 'read' end,
       case when n % 10 = 0 then null when n % 50 = 1 then 'reveal' else 'mask' end,
       case when n % 100000 = 0 then 'getTenant' when n % 10 = 0 then 'getApplication' else 'getToken' end,
       n::text, 'Token retrieved',
       timestamptz '2029-01-01' + n * interval '10 seconds'
     from generate_series(1, $2::integer) n`,
    [tenantId, entries],
  );
}

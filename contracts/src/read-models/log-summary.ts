const key = 'text collate "C" not null';
const dimensions = { actor_id: key, entity_type: key, operation: key, transform: key, request: key } as const;
const rest = { at: 'timestamptz not null', count: 'bigint not null' } as const;
const plain = { tenant_id: 'uuid not null', ...dimensions, ...rest } as const;
const byReason = { tenant_id: 'uuid not null', ...dimensions, reason: key, ...rest } as const;

/**
 * As for `tokens`: the columns of the read model `log_summary`. Entries with a reason are counted a second time in
 * tables of their own. `active_token` has each token that was used in a month once, and `active_token_count` their number.
 */
export const logSummaryTables = {
  minute_count: plain,
  minute_reason_count: byReason,
  hour_count: plain,
  hour_reason_count: byReason,
  active_token: { tenant_id: 'uuid not null', month: 'timestamptz not null', token_id: key },
  active_token_count: { tenant_id: 'uuid not null', month: 'timestamptz not null', count: 'bigint not null' },
} as const;

const key = 'text collate "C" not null';
const hours = { hour: 'timestamptz not null', count: 'bigint not null' } as const;
const kind = { entity_type: key, operation: key, transform: key, request: key } as const;

/** As for `tokens`: the columns of the read model `log`. */
export const logTables = {
  entry: {
    tenant_id: 'uuid not null',
    seq: 'bigint not null',
    ordinal: 'integer not null',
    actor_id: 'text collate "C"',
    actor_type: 'text',
    entity_type: key,
    // Set when consecutive entries of an event differ only in their entity: one row has all these entities, and `entity_id` is null.
    entity_id: 'text collate "C"',
    entity_ids: 'text[] collate "C"',
    /** The number of entries of the row. */
    size: 'integer not null',
    operation: key,
    transform: 'text collate "C"',
    request: 'text collate "C"',
    trace_id: 'text collate "C"',
    reason: 'text collate "C"',
    message: 'text not null',
    created_at: 'timestamptz not null',
  },
  // The entities of rows with several, to find these rows.
  entry_entity: {
    tenant_id: 'uuid not null',
    entity_id: key,
    created_at: 'timestamptz not null',
    seq: 'bigint not null',
    ordinal: 'integer not null',
    // In `entity_ids`, from 1.
    place: 'integer not null',
  },
  // Each counter has about a tenth of the rows of the next one. The first counts a whole log, the last the entries of
  // one actor. An absent value is stored as the empty text, because a column of a primary key cannot be null.
  entry_count: { tenant_id: 'uuid not null', entity_type: key, ...hours },
  entry_kind_count: { tenant_id: 'uuid not null', ...kind, ...hours },
  actor_kind_count: { tenant_id: 'uuid not null', actor_id: key, ...kind, ...hours },
} as const;

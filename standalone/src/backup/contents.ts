import type { BundleKind } from './format.ts';

/** A table, or a part of one, as one file in the text format of COPY: a row a line, columns by tabs. */
export interface Part {
  readonly name: string;
  readonly bundle: BundleKind;
  readonly table: string;
  /** Named one by one, so that a later migration may add others. */
  readonly columns: readonly string[];
  readonly orderBy: string;
  /** False: it serves comparisons, and is not loaded. */
  readonly isLoaded: boolean;
}

const part = (
  bundle: BundleKind,
  name: string,
  table: string,
  columns: readonly string[],
  orderBy: string,
  isLoaded = true,
): Part => ({ bundle, name, table, columns, orderBy, isLoaded });

/**
 * Everything that cannot be made anew. Read models are made from the log. `event_store.stream` and `head` follow from the
 * events. The place that housekeeping has reached is left out on purpose: a restored vault carries out once more every erasure
 * that its log has decided, whatever the age of the key ring beside it.
 */
export const parts: readonly Part[] = [
  part(
    'keys',
    'root-keys',
    'key_ring.root_key',
    ['root_key_id', 'check_value', 'created_at', 'retired_at'],
    'created_at, root_key_id',
  ),
  part('keys', 'destroyed-tenants', 'key_ring.destroyed_tenant', ['tenant_id', 'destroyed_at'], 'tenant_id'),
  part(
    'keys',
    'tenant-keys',
    'key_ring.tenant_key',
    ['tenant_id', 'version', 'root_key_id', 'wrapped', 'created_at'],
    'tenant_id, version',
  ),
  part(
    'keys',
    'tenant-index-keys',
    'key_ring.tenant_index_key',
    ['tenant_id', 'tenant_key_version', 'wrapped', 'created_at'],
    'tenant_id',
  ),
  part(
    'keys',
    'data-keys',
    'key_ring.data_key',
    ['id', 'tenant_id', 'entity', 'purpose', 'tenant_key_version', 'created_at', 'destroy_after', 'wrapped'],
    'id',
  ),
  // Which data keys there were, without the keys: what is missing later was destroyed since.
  part('log', 'data-key-ids', 'key_ring.data_key', ['id', 'tenant_id', 'entity'], 'id', false),
  part(
    'log',
    'events',
    'event_store.event',
    ['position', 'stream', 'revision', 'version', 'bytes', 'id', 'type', 'data', 'metadata'],
    'position',
  ),
  // Sealed, and they keep a request that is repeated after the restore from being carried out twice.
  part(
    'log',
    'idempotent-answers',
    'idempotency.answer',
    ['scope', 'tenant_id', 'request_id', 'held_by', 'held_until', 'expires_at', 'answer'],
    'scope',
  ),
  part('log', 'invocation-feeds', 'invocations.checkpoint', ['name', 'position'], 'name'),
];

/** @throws Error for a name that is none */
export function partNamed(name: string): Part {
  const found = parts.find((each) => each.name === name);
  if (!found) throw new Error(`no part of a backup is called ${name}`);
  return found;
}

export const copyOut = ({ table, columns, orderBy }: Part): string =>
  `copy (select ${columns.join(', ')} from ${table} order by ${orderBy}) to stdout`;

export const copyIn = ({ table, columns }: Part): string =>
  `copy ${table} (${columns.join(', ')}) from stdin`;

export const fileOf = (name: string): string => `${name}.copy.gz`;

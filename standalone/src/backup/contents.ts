import { copiedLog } from '@token-vault/event-store/postgres';
import type { BundleKind } from './format.ts';

/** A table, or a part of one, as one file in the text format of COPY: one row a line, columns separated by tabs. */
export interface Part {
  readonly name: string;
  readonly bundle: BundleKind;
  readonly table: string;
  /** Named one by one, so that a later migration may add columns. */
  readonly columns: readonly string[];
  readonly orderBy: string;
  /** True: only in a backup that has the log too. A log in another server is copied by the tools of that server. */
  readonly isWithLog: boolean;
}

type Selection = Pick<Part, 'columns' | 'orderBy'> & Partial<Pick<Part, 'isWithLog'>>;

const part = (bundle: BundleKind, name: string, table: string, selection: Selection): Part => ({
  bundle,
  name,
  table,
  isWithLog: false,
  ...selection,
});

/**
 * All data that cannot be computed again. Read models are rebuilt from the log. The streams and the head of
 * the log follow from the events. The checkpoint of housekeeping is left out on purpose: a restored vault repeats every
 * erasure that its log has decided, for a key ring of any age.
 */
const parts: readonly Part[] = [
  part('keys', 'root-keys', 'key_ring.root_key', {
    columns: ['root_key_id', 'check_value', 'created_at', 'retired_at'],
    orderBy: 'created_at, root_key_id',
  }),
  part('keys', 'destroyed-tenants', 'key_ring.destroyed_tenant', {
    columns: ['tenant_id', 'destroyed_at'],
    orderBy: 'tenant_id',
  }),
  part('keys', 'tenant-keys', 'key_ring.tenant_key', {
    columns: ['tenant_id', 'version', 'root_key_id', 'wrapped', 'created_at'],
    orderBy: 'tenant_id, version',
  }),
  part('keys', 'tenant-index-keys', 'key_ring.tenant_index_key', {
    columns: ['tenant_id', 'tenant_key_version', 'wrapped', 'created_at'],
    orderBy: 'tenant_id',
  }),
  part('keys', 'data-keys', 'key_ring.data_key', {
    columns: [
      'id',
      'tenant_id',
      'entity',
      'purpose',
      'tenant_key_version',
      'created_at',
      'destroy_after',
      'wrapped',
    ],
    orderBy: 'id',
  }),
  part('log', 'events', copiedLog.table, { ...copiedLog, isWithLog: true }),
  // Sealed answers. They prevent that a request repeated after the restore is executed twice.
  part('log', 'idempotent-answers', 'idempotency.answer', {
    columns: ['scope', 'tenant_id', 'request_id', 'held_by', 'held_until', 'expires_at', 'answer'],
    orderBy: 'scope',
  }),
  part('log', 'invocation-feeds', 'invocations.checkpoint', {
    columns: ['name', 'position'],
    orderBy: 'name',
    // Positions of a younger moment than the log are wrong. Without them the log is read from its beginning.
    isWithLog: true,
  }),
];

/** The parts of a backup with the log, or of one whose log is in another server. */
export const partsOf = ({ hasLog }: { readonly hasLog: boolean }): readonly Part[] =>
  parts.filter(({ isWithLog }) => hasLog || !isWithLog);

/** @throws Error for an unknown name */
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

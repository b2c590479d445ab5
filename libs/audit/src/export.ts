import { AuditCheckpointSigned } from '@token-vault/contracts';
import { startPosition, type EventStore, type Position, type StoredEvent } from '@token-vault/event-store';
import { hexHashOf } from './chain.ts';
import { tenantOf } from './tenant-of.ts';

export type ExportFormat = 'jsonl' | 'csv';

export interface ExportOptions {
  readonly store: EventStore;
  readonly tenantId: string;
  readonly format: ExportFormat;
  readonly from?: Position | undefined;
  readonly to?: Position | undefined;
}

const csvColumns = [
  'position',
  'stream',
  'revision',
  'version',
  'id',
  'type',
  'data',
  'metadata',
  'hash',
] as const;

/** RFC 4180. A cell that a spreadsheet would take for a formula begins with an apostrophe. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * The stored events of a tenant, with the hash of each and the signed checkpoints among them. A reader with the public key can check them
 * without the vault. Sensitive values are sealed, as in the log. Yields line by line.
 */
export async function* exportAudit(options: ExportOptions): AsyncGenerator<string, void> {
  const { store, tenantId, format, from = startPosition, to } = options;
  const line = format === 'jsonl' ? jsonLine : csvLine;
  if (format === 'csv') yield csvColumns.join(',');
  for await (const events of store.readStored(from, to === undefined ? {} : { until: to }))
    for (const row of events) if (tenantOf(row) === tenantId) yield line(row);
}

const hashText = (row: StoredEvent): string =>
  row.type === AuditCheckpointSigned.type ? '' : hexHashOf(row);

/** `data` and `metadata` stay texts: the hash covers every byte of them. */
function jsonLine(row: StoredEvent): string {
  const { position, stream, revision, version, id, type, data, metadata } = row;
  return JSON.stringify({
    position,
    stream,
    revision,
    version,
    id,
    type,
    data,
    metadata,
    hash: hashText(row),
  });
}

function csvLine(row: StoredEvent): string {
  const values = { ...row, hash: hashText(row) };
  return csvColumns.map((column) => cell(String(values[column]))).join(',');
}

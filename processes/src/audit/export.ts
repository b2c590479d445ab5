import { AuditCheckpointSigned } from '@token-vault/contracts';
import type { Pool } from 'pg';
import { hexHashOf } from './chain.ts';
import { readHead, readLogRows, tenantOf, type LogRow } from './log-rows.ts';

export type ExportFormat = 'jsonl' | 'csv';

export interface ExportOptions {
  readonly pool: Pool;
  readonly tenantId: string;
  readonly format: ExportFormat;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
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

/** RFC 4180; a cell that a spreadsheet would take for a formula begins with an apostrophe. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * The events of a tenant as they are stored, with the hash of each and the signed checkpoints among them: whoever has the public
 * key can check them without the vault. Sensitive values are sealed in them, as in the log. Line by line.
 */
export async function* exportAudit(options: ExportOptions): AsyncGenerator<string, void> {
  const { pool, tenantId, format, from = '0', to } = options;
  const line = format === 'jsonl' ? jsonLine : csvLine;
  if (format === 'csv') yield csvColumns.join(',');
  for await (const rows of readLogRows(pool, from, to ?? (await readHead(pool))))
    for (const row of rows) if (tenantOf(row) === tenantId) yield line(row);
}

const hashText = (row: LogRow): string => (row.type === AuditCheckpointSigned.type ? '' : hexHashOf(row));

/** `data` and `metadata` stay texts: their hash is over every byte. */
function jsonLine(row: LogRow): string {
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

function csvLine(row: LogRow): string {
  const values = { ...row, hash: hashText(row) };
  return csvColumns.map((column) => cell(String(values[column]))).join(',');
}

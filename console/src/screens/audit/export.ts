import type { LogEntry } from '@token-vault/contracts';
import { csvCell } from './csv.ts';
import { call, type Page, type Parameters, withQuery } from '../../api/client.ts';

/** Maximum number of entries. `vault audit export` exports more, with the signed checkpoints. */
export const maxExported = 50_000;

const columns = [
  'created_at',
  'actor_type',
  'actor_id',
  'operation',
  'entity_type',
  'entity_id',
  'transform',
  'request',
  'reason',
  'trace_id',
  'message',
] as const satisfies readonly (keyof LogEntry)[];

export const formats = {
  ndjson: { type: 'application/x-ndjson', head: '', line: (entry: LogEntry) => JSON.stringify(entry) },
  csv: {
    type: 'text/csv',
    head: `${columns.join(',')}\n`,
    line: (entry: LogEntry) => columns.map((name) => csvCell(entry[name] ?? '')).join(','),
  },
} as const;
export type Format = keyof typeof formats;

interface Progress {
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: number) => void;
}

/** Reads all entries that the parameters choose, page by page, and gives them to the person as a file. */
export async function exportEntries(
  parameters: Parameters,
  format: Format,
  { signal, onProgress }: Progress,
): Promise<void> {
  const { type, head, line } = formats[format];
  const lines: string[] = [];
  for (let page = 1, pages = 1; page <= pages && lines.length < maxExported; page += 1) {
    const path = withQuery('/logs', { ...parameters, page, size: 100 });
    const { data, pagination } = await call<Page<LogEntry>>('GET', path, { signal });
    pages = pagination.total_pages;
    for (const entry of data) lines.push(`${line(entry)}\n`);
    onProgress(lines.length, Math.min(maxExported, pagination.total_items));
  }
  download(new Blob([head, ...lines], { type }), `log.${format}`);
}

function download(content: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

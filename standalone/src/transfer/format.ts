import { isSecret, ValidationError, type Secret } from '@token-vault/contracts';
import { parseBody } from '@token-vault/http';
import { z } from 'zod';
import { linesOf } from '../backup/lines.ts';
import { TransferError } from './errors.ts';

/** Raised when a release writes a format that the release before would read wrongly. */
export const formatVersion = 1;

const header = z.object({
  format: z.literal('token-vault export'),
  format_version: z.int().min(1),
  export_id: z.uuid(),
  tenant_id: z.uuid(),
  created_at: z.iso.datetime(),
});
export type ExportHeader = z.infer<typeof header>;

const trailer = z.object({ end: z.literal(true), tokens: z.int().min(0), left_out: z.int().min(0) });
export type ExportTrailer = z.infer<typeof trailer>;

const brokenFile = () => new TransferError('what is sealed in the file is not an export of tokens');

/** The value of a line, or the error with which a request with such a body would be refused. */
export type ExportLine = Secret<unknown> | ValidationError;

/**
 * A number that JavaScript changes gives such an error.
 * @throws TransferError when the line is not JSON
 */
function parse(line: string): ExportLine {
  try {
    return parseBody(Buffer.from(line, 'utf8'));
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    if (!isJson(line)) throw brokenFile();
    return error;
  }
}

function isJson(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

export interface ExportReader {
  readonly onHeader?: (header: ExportHeader) => void;
  readonly onTrailer?: (trailer: ExportTrailer) => void;
}

/**
 * The tokens of an export, in batches and in the order of the file: a header line, a line for each token, a last
 * line. In the place of a token that the interface would refuse is its `ValidationError`.
 * @throws TransferError
 */
export async function* readExport(
  plaintext: AsyncIterable<Buffer>,
  { onHeader, onTrailer }: ExportReader,
): AsyncGenerator<readonly ExportLine[], void> {
  let isBegun = false;
  let isEnded = false;
  let count = 0;
  for await (const lines of linesOf(plaintext)) {
    const tokens: ExportLine[] = [];
    for (const line of lines) {
      if (isEnded) throw brokenFile();
      const read = parse(line);
      const value = isSecret(read) ? read.expose() : undefined;
      if (!isBegun) {
        onHeader?.(headerIn(value));
        isBegun = true;
        continue;
      }
      const end = trailer.safeParse(value);
      if (!end.success) {
        count += 1;
        tokens.push(read);
        continue;
      }
      if (end.data.tokens !== count) throw brokenFile();
      isEnded = true;
      onTrailer?.(end.data);
    }
    if (tokens.length > 0) yield tokens;
  }
  if (!isEnded) throw brokenFile();
}

function headerIn(value: unknown): ExportHeader {
  const version = (value as { format_version?: unknown } | null)?.format_version;
  if (typeof version === 'number' && version > formatVersion)
    throw new TransferError(`the export has format ${version}, this release knows up to ${formatVersion}`);
  const read = header.safeParse(value);
  if (!read.success) throw brokenFile();
  return read.data;
}

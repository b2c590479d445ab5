import { ValidationError } from '@token-vault/contracts';
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

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // The cause is left out, because it would quote the line.
    throw brokenFile();
  }
}

/** The error of a line that would be refused as the body of a request, such as a number that JavaScript has changed. */
function refusalOf(line: string): ValidationError | undefined {
  try {
    parseBody(Buffer.from(line, 'utf8'));
    return undefined;
  } catch (error) {
    if (error instanceof ValidationError) return error;
    throw error;
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
): AsyncGenerator<readonly unknown[], void> {
  let isBegun = false;
  let isEnded = false;
  let count = 0;
  for await (const lines of linesOf(plaintext)) {
    const tokens: unknown[] = [];
    for (const line of lines) {
      if (isEnded) throw brokenFile();
      const value = parse(line);
      if (!isBegun) {
        onHeader?.(headerIn(value));
        isBegun = true;
        continue;
      }
      const end = trailer.safeParse(value);
      if (!end.success) {
        count += 1;
        tokens.push(refusalOf(line) ?? value);
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

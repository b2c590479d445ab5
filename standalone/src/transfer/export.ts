import { tokenVisibility, type Principal } from '@token-vault/access';
import { ForbiddenError, newId } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { createTokenExport, type ExportPage } from '@token-vault/query-service';
import { commandLineCaller, type AuditTrail, type Clock, type Identity } from '@token-vault/operations';
import type { ReadModelWatch } from '@token-vault/read-models';
import { addAbortSignal } from 'node:stream';
import type { Pool } from 'pg';
import { replaceFile } from '../backup/bundle-writer.ts';
import { formatVersion, type ExportHeader, type ExportTrailer } from './format.ts';
import { SealedFile } from './sealed-file.ts';
import { sealFor } from './sealing.ts';

export interface ExportOptions {
  readonly pool: Pool;
  readonly watch: Pick<ReadModelWatch, 'requireMoving'>;
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
  readonly clock: Clock;
  /** Finds the caller with its present rights, which decide each page. */
  readonly identify: () => Promise<Identity>;
  /** The reason of the caller for the export. */
  readonly reason: string | undefined;
  readonly recipients: readonly string[];
  /** The file appears when it is complete. */
  readonly file: string;
  readonly signal: AbortSignal;
  readonly onProgress?: (tokens: number) => void;
}

export interface ExportReport {
  readonly exportId: string;
  readonly tokens: number;
  /** The number of tokens that the caller's rules do not reveal. */
  readonly leftOut: number;
}

/**
 * Writes the tokens of the caller's tenant that its rules reveal, sealed to the recipients. Plaintext exists in
 * memory only, one page at a time. The record of each page is in the tenant's log before a byte of it is written, and a page is written at once.
 * @throws UnavailableError when the read models have stopped; ForbiddenError, which is recorded too, when no rule of
 * the caller reveals any token, or none does any more after some pages; UnauthenticatedError when the caller no longer exists; TransferError
 */
export async function exportTokens(options: ExportOptions): Promise<ExportReport> {
  const { identify, reason, clock, recipients, file, signal } = options;
  const exportId = newId();
  const request = { traceId: exportId, identify, reason };
  const exporter = commandLineCaller('export', request, options, requireReveal);
  const { tenant } = await exporter.principalNow();
  const report = { exportId, tokens: 0, leftOut: 0 };
  const pages = createTokenExport(options)(exporter, { exportId, recipients });
  const header: ExportHeader = {
    format: 'token-vault export',
    format_version: formatVersion,
    export_id: exportId,
    tenant_id: tenant.id,
    created_at: clock.now().toISOString(),
  };
  await replaceFile(file, async (unfinished) => {
    const sealedFile = new SealedFile();
    const lines = linesOf(sealedFile, header, counted(pages, report, options.onProgress), report);
    await sealedFile.write(unfinished, async () => {
      const sealed = await sealFor(recipients, lines);
      addAbortSignal(signal, sealed.stream);
      return sealed;
    });
    // All of it is in the file. An application that has ended meanwhile gets none.
    await exporter.principalNow();
  });
  return report;
}

/** An export needs a rule that reveals; one that masks is not enough. @throws ForbiddenError */
function requireReveal(principal: Principal): void {
  const reveals = principal.rules.some(
    ({ transform, permissions }) => transform === 'reveal' && permissions.includes('token:read'),
  );
  const visibility = tokenVisibility(principal, 'token:read');
  if (visibility.kind === 'needs-reason')
    throw new ForbiddenError('A rule of the application requires a reason: give it with --reason.');
  if (!reveals)
    throw new ForbiddenError(
      'No rule of the application reveals tokens (token:read with the transform reveal).',
    );
}

async function* counted(
  pages: AsyncGenerator<ExportPage, void>,
  report: { tokens: number; leftOut: number },
  onProgress?: (tokens: number) => void,
): AsyncGenerator<ExportPage, void> {
  for await (const page of pages) {
    report.tokens += page.tokens.length;
    report.leftOut += page.leftOut;
    onProgress?.(report.tokens);
    yield page;
  }
}

/** The next page is decided when the page before it is in the file. */
async function* linesOf(
  file: SealedFile,
  header: ExportHeader,
  pages: AsyncIterable<ExportPage>,
  report: { readonly tokens: number; readonly leftOut: number },
): AsyncGenerator<Buffer, void> {
  yield file.take(`${JSON.stringify(header)}\n`);
  for await (const { tokens } of pages) {
    if (tokens.length === 0) continue;
    yield file.fill(tokens.map((token) => `${JSON.stringify(token)}\n`).join(''));
    await file.written();
  }
  const end: ExportTrailer = { end: true, tokens: report.tokens, left_out: report.leftOut };
  yield file.take(`${JSON.stringify(end)}\n`);
}

import { can, type Principal } from '@token-vault/access';
import { AccessDenied, ForbiddenError, newId } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { createTokenExport, type ExportPage } from '@token-vault/query-service';
import {
  createRequestContext,
  type AuditTrail,
  type Clock,
  type ReadModelWatch,
  type RequestContext,
} from '@token-vault/service-kit';
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { Pool } from 'pg';
import { replaceFile } from '../backup/bundle-writer.ts';
import { formatVersion, type ExportHeader, type ExportTrailer } from './format.ts';
import { sealFor } from './sealing.ts';

export interface ExportOptions {
  readonly pool: Pool;
  readonly watch: Pick<ReadModelWatch, 'requireMoving'>;
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
  readonly clock: Clock;
  /** Whose rules decide what leaves, as they are at each page. @throws when it is no more */
  readonly findPrincipal: () => Promise<Principal>;
  readonly recipients: readonly string[];
  /** Appears when it is whole. */
  readonly file: string;
  readonly signal: AbortSignal;
  readonly onProgress?: (tokens: number) => void;
}

export interface ExportReport {
  readonly exportId: string;
  readonly tokens: number;
  /** The caller's rules do not reveal them. */
  readonly leftOut: number;
}

/**
 * Writes what the caller's rules reveal of its tenant's tokens, sealed to the recipients: in plaintext it exists in memory only, a
 * page at a time. Each page is on record in the tenant's log before a byte of it is written.
 * @throws UnavailableError when the read models stand still; ForbiddenError when no rule of the caller reveals anything, which is on record too. @throws TransferError
 */
export async function exportTokens(options: ExportOptions): Promise<ExportReport> {
  const { findPrincipal, audit, clock, recipients, file, signal } = options;
  const exportId = newId();
  const contextNow = async (): Promise<RequestContext> =>
    createRequestContext({ principal: await findPrincipal(), traceId: exportId, now: clock.now() });
  const context = await contextNow();
  await requireReveal(context, audit);
  const report = { exportId, tokens: 0, leftOut: 0 };
  const pages = createTokenExport(options)(contextNow, { exportId, recipients });
  const header: ExportHeader = {
    format: 'token-vault export',
    format_version: formatVersion,
    export_id: exportId,
    tenant_id: context.principal.tenant.id,
    created_at: context.now.toISOString(),
  };
  await replaceFile(file, async (unfinished) => {
    const sealed = await sealFor(
      recipients,
      linesOf(header, counted(pages, report, options.onProgress), report),
    );
    await pipeline(sealed, createWriteStream(unfinished, { flags: 'wx', mode: 0o600, flush: true }), {
      signal,
    });
  });
  return report;
}

/** A mask is no way to leave: only a rule that reveals is. */
async function requireReveal(context: RequestContext, audit: AuditTrail): Promise<void> {
  const { principal } = context;
  const reveals = principal.rules.some(
    ({ transform, permissions }) => transform === 'reveal' && permissions.includes('token:read'),
  );
  if (reveals && can(principal, 'token:read')) return;
  await audit.record(context, AccessDenied, {
    entity_type: 'token',
    permission: 'token:read',
    operation: 'export',
  });
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

async function* linesOf(
  header: ExportHeader,
  pages: AsyncIterable<ExportPage>,
  report: { readonly tokens: number; readonly leftOut: number },
): AsyncGenerator<Buffer, void> {
  yield Buffer.from(`${JSON.stringify(header)}\n`);
  for await (const { tokens } of pages)
    yield Buffer.from(tokens.map((token) => `${JSON.stringify(token)}\n`).join(''));
  const end: ExportTrailer = { end: true, tokens: report.tokens, left_out: report.leftOut };
  yield Buffer.from(`${JSON.stringify(end)}\n`);
}

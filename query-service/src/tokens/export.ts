import { decideTokenAccess } from '@token-vault/access';
import {
  authenticationReadModels,
  TokensExported,
  type DataOf,
  type Json,
  type JsonObject,
} from '@token-vault/contracts';
import { isErased, type KeyRing } from '@token-vault/crypto';
import type { AuditTrail, RequestContext } from '@token-vault/operations';
import type { ReadModelWatch } from '@token-vault/read-models';
import { openLastingData } from '@token-vault/tokens';
import type { Pool } from 'pg';
import { requireSignedRows } from './signed-rows.ts';
import { isExpired, t, tokenColumns, type TokenRow } from './row.ts';

/** A token in plaintext, in the shape of a request that creates it again in another vault. */
export interface ExportedToken {
  readonly id: string;
  readonly type: string;
  readonly data: Json;
  readonly mask?: Json;
  readonly containers: readonly string[];
  readonly metadata?: Json;
  readonly search_indexes: Json;
  readonly fingerprint_expression?: string;
  readonly expires_at?: string;
}

export interface ExportPage {
  readonly tokens: readonly ExportedToken[];
  /** The number of tokens that the caller may not see in plaintext. */
  readonly leftOut: number;
}

export type ExportTokens = (
  /** The context of the exporting application with its present rights. @throws an error that ends the export */
  contextNow: () => Promise<RequestContext>,
  purpose: { readonly exportId: string; readonly recipients: readonly string[] },
) => AsyncGenerator<ExportPage, void>;

const pageSize = 200;
const pageAfter = `select ${tokenColumns.join(', ')} from ${t.source}
  where ${t.tenant_id} = $1 and ${t.id} > $2 order by ${t.id} limit ${pageSize}`;

/**
 * All tokens of the caller's tenant that the caller's rules reveal, ordered by id, one page at a time. An export may
 * take hours, so each page is decided by the caller's rights and the clock of that moment. The record of a page is
 * durable before the page is given. A token that is deleted meanwhile is left out; a token that is created meanwhile
 * may be included or not.
 */
export function createTokenExport({
  pool,
  keyRing,
  audit,
  watch,
}: {
  readonly pool: Pool;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
  readonly watch: Pick<ReadModelWatch, 'requireMoving'>;
}): ExportTokens {
  async function readPage(tenantId: string, after: string): Promise<TokenRow[]> {
    await watch.requireMoving([...authenticationReadModels, 'tokens']);
    return (await pool.query<TokenRow>(pageAfter, [tenantId, after])).rows;
  }

  return async function* (contextNow, { exportId, recipients }) {
    for (let after = ''; ;) {
      const context = await contextNow();
      const rows = await readPage(context.principal.tenant.id, after);
      const last = rows.at(-1);
      if (!last) return;
      after = last.id;
      await requireSignedRows(keyRing, context.principal.tenant, rows);
      const present = rows.filter((row) => !isExpired(row, context.now));
      const revealed = present.flatMap((row) => revealedTo(context, row) ?? []);
      const data = { export_id: exportId, recipients, tokens: revealed.map(({ entry }) => entry) };
      const [opened] = await Promise.all([
        Promise.all(revealed.map(({ row }) => openForExport(keyRing, row))),
        revealed.length > 0 ? audit.record(context, TokensExported, data) : undefined,
      ]);
      const tokens = opened.filter((token) => token !== undefined);
      yield { tokens, leftOut: present.length - revealed.length };
    }
  };
}

/** Undefined when the token was deleted meanwhile. */
async function openForExport(
  keyRing: Pick<KeyRing, 'open'>,
  row: TokenRow,
): Promise<ExportedToken | undefined> {
  const place = { tenantId: row.tenant_id, tokenId: row.id };
  try {
    return exported(row, (await openLastingData(keyRing, place, row)).expose());
  } catch (error) {
    if (isErased(error)) return undefined;
    throw error;
  }
}

/** A token that the caller may see in plaintext, with its entry in the record of the export. */
interface RevealedRow {
  readonly row: TokenRow;
  readonly entry: DataOf<'TokensExported'>['tokens'][number];
}

/** Undefined when the rules do not reveal the token to the caller. */
function revealedTo({ principal }: RequestContext, row: TokenRow): RevealedRow | undefined {
  const { id, type, container } = row;
  const access = decideTokenAccess(principal, 'token:read', { id, containers: [container] });
  if (!access.isGranted || access.transform !== 'reveal') return undefined;
  const { isBreakGlass: break_glass } = access;
  return { row, entry: { token_id: id, token_type: type, ...(break_glass && { break_glass }) } };
}

/** The row without expressions that a caller set without seeing the data (rules.md §5). The importing vault would keep them for ever. */
function withoutUnseen(row: TokenRow): TokenRow {
  const unseen = JSON.parse(row.set_without_sight ?? '{}') as JsonObject;
  const kept = <Field extends 'mask' | 'search_indexes' | 'fingerprint_expression'>(field: Field) =>
    Object.hasOwn(unseen, field) ? null : row[field];
  return {
    ...row,
    mask: kept('mask'),
    search_indexes: kept('search_indexes'),
    fingerprint_expression: kept('fingerprint_expression'),
  };
}

function exported(stored: TokenRow, data: Json): ExportedToken {
  const row = withoutUnseen(stored);
  const { id, type, mask, container, metadata, search_indexes: indexes } = row;
  return {
    id,
    type,
    data,
    ...(mask === null ? {} : { mask: JSON.parse(mask) as Json }),
    containers: [container],
    ...(metadata === null ? {} : { metadata: JSON.parse(metadata) as Json }),
    search_indexes: indexes === null ? [] : (JSON.parse(indexes) as Json),
    ...(row.fingerprint_expression === null ? {} : { fingerprint_expression: row.fingerprint_expression }),
    ...(row.expires_at_text === null ? {} : { expires_at: row.expires_at_text }),
  };
}

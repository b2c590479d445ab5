import { decideTokenAccess } from '@token-vault/access';
import { authenticationReadModels, TokensExported, type Json } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { AuditTrail, ReadModelWatch, RequestContext } from '@token-vault/service-kit';
import type { Pool } from 'pg';
import { isErased } from '../erased.ts';
import { compile, sql } from '../sql.ts';
import { openLastingData } from './reveal.ts';
import { requireSignedRows } from './signed-rows.ts';
import { isExpired, tokenColumns, type TokenRow } from './row.ts';

/** What makes the token again elsewhere, as a request to create it has it. Plaintext. */
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
  /** Tokens that the caller may not see in plaintext. */
  readonly leftOut: number;
}

export type ExportTokens = (
  /** The exporting application with its present rights. @throws an error that ends the export */
  contextNow: () => Promise<RequestContext>,
  purpose: { readonly exportId: string; readonly recipients: readonly string[] },
) => AsyncGenerator<ExportPage, void>;

const pageSize = 200;

/**
 * All tokens of the caller's tenant that its rules reveal, in the order of their ids, a page at a time. Each page is decided by the caller's
 * rights and the clock of that moment: an export may take hours. The record of a page is
 * durable before the page is given; a token that was deleted meanwhile is left out, one made meanwhile may be in it or not.
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
    const statement = sql`select ${tokenColumns} from rm_tokens.token t
      where t.tenant_id = ${tenantId}::uuid and t.id > ${after} order by t.id limit ${pageSize}`;
    return (await pool.query<TokenRow>(compile(statement))).rows;
  }

  async function openOne(row: TokenRow): Promise<ExportedToken | undefined> {
    try {
      return exported(row, (await openLastingData(keyRing, row)).expose());
    } catch (error) {
      if (isErased(error)) return undefined;
      throw error;
    }
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
      const revealed = present.filter((row) => isRevealed(context, row));
      const named = revealed.map(({ id, type }) => ({ token_id: id, token_type: type }));
      const data = { export_id: exportId, recipients, tokens: named };
      const [opened] = await Promise.all([
        Promise.all(revealed.map(openOne)),
        named.length > 0 ? audit.record(context, TokensExported, data) : undefined,
      ]);
      const tokens = opened.filter((token) => token !== undefined);
      yield { tokens, leftOut: present.length - revealed.length };
    }
  };
}

function isRevealed({ principal }: RequestContext, { id, container }: TokenRow): boolean {
  const access = decideTokenAccess(principal, 'token:read', { id, containers: [container] });
  return access.isGranted && access.transform === 'reveal';
}

function exported(row: TokenRow, data: Json): ExportedToken {
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

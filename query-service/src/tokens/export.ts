import type { Principal } from '@token-vault/access';
import {
  authenticationReadModels,
  fromStoredSetter,
  TokensExported,
  type descriptions,
  type Json,
  type StoredSetter,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import {
  asRightsAreNow,
  type Answer,
  type AuditTrail,
  type PendingAnswer,
  type PresentCaller,
  type RequestContext,
} from '@token-vault/operations';
import type { ReadModelWatch } from '@token-vault/read-models';
import { openLastingData } from '@token-vault/tokens';
import type { Pool } from 'pg';
import { accessTo } from './granted.ts';
import { bytesOfRow, partBytes } from './large-rows.ts';
import { readTokensByIds } from './queries.ts';
import { isExpired, t, tokenColumns, type TokenRow } from './row.ts';
import { ShownTokens, type Form, type GrantedToken } from './show.ts';
import { requireSignedRows } from './signed-rows.ts';

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
  /** The number of tokens that the caller may not see in plaintext, or that are changed faster than they are exported. */
  readonly leftOut: number;
}

interface Purpose {
  readonly exportId: string;
  readonly recipients: readonly string[];
}

/** `exporter`: the application that exports. An error of `principalNow` ends the export. */
export type ExportTokens = (exporter: PresentCaller, purpose: Purpose) => AsyncGenerator<ExportPage, void>;

export interface ExportDependencies {
  readonly pool: Pool;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
  readonly watch: Pick<ReadModelWatch, 'requireMoving'>;
}

const pageSize = 200;
// A page ends with the token that makes it larger than a part.
const columns = tokenColumns.join(', ');
const pageAfter = `with page as (
    select ${columns} from ${t.source} where ${t.tenant_id} = $1 and ${t.id} > $2 order by ${t.id} limit ${pageSize}
  )
  select ${columns} from (
    select ${columns}, sum(${bytesOfRow}) over (order by ${t.id}) - (${bytesOfRow}) as bytes_before from page t
  ) t where bytes_before < ${partBytes} order by ${t.id}`;

/** A token leaves the vault in plaintext. */
const asExported = (
  keyRing: Pick<KeyRing, 'open'>,
  { exportId, recipients }: Purpose,
): Form<ExportedToken> => ({
  opener:
    () =>
    async ({ row }) => {
      const owner = { tenantId: row.tenant_id, tokenId: row.id };
      return exported(row, (await openLastingData(keyRing, owner, row)).expose());
    },
  eventsOf(context, entries) {
    const tokens = entries.map(({ transform: _reveal, ...entry }) => entry);
    return [context.event(TokensExported, { export_id: exportId, recipients: [...recipients], tokens })];
  },
  isEmptyRecorded: false,
});

/** A page of an export is decided as the answer to a list is (ADR 16). */
class ExportedPage implements PendingAnswer {
  readonly #dependencies: ExportDependencies;
  readonly #after: string;
  readonly #shown: ShownTokens<ExportedToken>;
  readonly #leftOut = new Set<string>();
  #last: string | undefined;

  constructor(dependencies: ExportDependencies, purpose: Purpose, after: string) {
    this.#dependencies = dependencies;
    this.#after = after;
    this.#shown = new ShownTokens(dependencies, asExported(dependencies.keyRing, purpose));
  }

  /** The id of its last token, also of one that is left out. Undefined when there are no more tokens. */
  get last(): string | undefined {
    return this.#last;
  }

  get page(): ExportPage {
    return { tokens: this.#shown.tokens, leftOut: this.#leftOut.size };
  }

  /** Reads, decides and opens the page, in place of an earlier decision. */
  async decide(context: RequestContext): Promise<Answer> {
    const { pool } = this.#dependencies;
    await this.#requireMoving();
    const values = [context.principal.tenant.id, this.#after];
    const { rows } = await pool.query<TokenRow>(pageAfter, values);
    this.#last = rows.at(-1)?.id;
    this.#leftOut.clear();
    const before = this.#shown.granted.map(({ row }) => row.id);
    await this.#replace(before, rows, context);
    return { pending: this };
  }

  async renew(context: RequestContext, isLast: boolean): Promise<boolean> {
    await this.#requireMoving();
    const ids = await this.#shown.overtaken(context);
    if (ids.length === 0) return false;
    const rows = await readTokensByIds(this.#dependencies.pool, context.principal.tenant.id, ids);
    await this.#replace(ids, rows, context, isLast);
    return true;
  }

  record(context: RequestContext): Promise<void> {
    return this.#shown.record(context);
  }

  answer(): Answer | undefined {
    return this.#shown.isOnRecord ? {} : undefined;
  }

  #requireMoving(): Promise<void> {
    return this.#dependencies.watch.requireMoving([...authenticationReadModels, 'tokens']);
  }

  /** Takes tokens into the page, as `rows` has them now. `isLast`: they change faster than they are opened. */
  async #replace(
    ids: readonly string[],
    rows: readonly TokenRow[],
    context: RequestContext,
    isLast = false,
  ): Promise<void> {
    await requireSignedRows(this.#dependencies.keyRing, context.principal.tenant, rows);
    const revealed = new Map<string, GrantedToken>();
    for (const row of rows) {
      if (isExpired(row, context.now)) continue;
      const access = accessTo(context, 'token:read', row);
      if (access.isGranted && access.transform === 'reveal' && !isLast)
        revealed.set(row.id, { ...access, row });
      else this.#leftOut.add(row.id);
    }
    this.#shown.drop(ids.filter((id) => !revealed.has(id)));
    this.#shown.put([...revealed.values()], context);
    await this.#shown.open(context);
  }
}

/**
 * All tokens of the caller's tenant that the caller's rules reveal, ordered by id, one page at a time. An export may
 * take hours, so each page is decided by the caller's rights, the tokens and the clock of the moment at which it is given. The record of a page
 * is durable before that. A token that is deleted meanwhile is left out; a token that is created meanwhile
 * may be included or not.
 */
export function createTokenExport(dependencies: ExportDependencies): ExportTokens {
  return async function* (exporter, purpose) {
    for (let after = ''; ;) {
      const page = new ExportedPage(dependencies, purpose, after);
      const atMs = performance.now();
      const decideAnew = (by: Principal) => page.decide(exporter.contextOf({ principal: by, atMs }));
      const principal = await exporter.principalNow();
      const answer = await decideAnew(principal);
      await asRightsAreNow({ answer, admitted: { principal, atMs }, decideAnew }, exporter);
      if (page.last === undefined) return;
      after = page.last;
      yield page.page;
    }
  };
}

/**
 * The row without the expressions that end with other data (rules.md §5): the importing vault would
 * keep them for ever. Those of a caller that saw the data where the token is are exported.
 */
function withoutUnseen(row: TokenRow): TokenRow {
  const setters = JSON.parse(row.set_without_sight ?? '{}') as Readonly<Record<string, StoredSetter>>;
  const kept = (field: (typeof descriptions)[number]) => {
    const setter = setters[field] === undefined ? undefined : fromStoredSetter(setters[field]);
    return setter === undefined || setter.sees ? row[field] : null;
  };
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

import type { KeyRing } from '@token-vault/crypto';
import type { Answer, MadeOf, PendingAnswer, RequestContext } from '@token-vault/operations';
import type { FairReads } from '../fair-reads.ts';
import { paginationOf, type Page, type PageRequest } from '../paging.ts';
import type { Sql } from '../statements.ts';
import { grantedOf, scopeOf } from './granted.ts';
import type { LargePages } from './large-pages.ts';
import { isWhole, partsOf, wholeRowsOf, type FoundRow } from './large-rows.ts';
import { requireSmallPage, workOf } from './page-bytes.ts';
import { findAmong, readAmong } from './queries.ts';
import type { TokenRow } from './row.ts';
import { asRead, redacted, ShownTokens, type ShowDependencies } from './show.ts';
import { requireSignedRows } from './signed-rows.ts';

/** The tokens that a list or search finds. */
export interface Found {
  readonly page: Page<FoundRow>;
  readonly request: PageRequest;
  /** Finds tokens of the page again. */
  readonly condition: Sql;
  /** The tokens about whose data the total reveals something, whether they are on the page or not. */
  readonly told?: MadeOf;
}

const permissionOf = { list: 'token:read', search: 'token:search' } as const;

interface PageDependencies extends ShowDependencies {
  readonly keyRing: ShowDependencies['keyRing'] & Pick<KeyRing, 'hashes'>;
  readonly reads: Pick<FairReads, 'spend'>;
  readonly largePages: LargePages;
}

/** The answer to a list or search. */
export class ShownPage implements PendingAnswer {
  readonly #dependencies: PageDependencies;
  readonly #permission: (typeof permissionOf)['list' | 'search'];
  readonly #shown: ShownTokens;
  #found: Found | undefined;

  constructor(dependencies: PageDependencies, operation: 'list' | 'search') {
    this.#dependencies = dependencies;
    this.#permission = permissionOf[operation];
    this.#shown = new ShownTokens(dependencies, asRead(dependencies, operation));
  }

  async show(found: Found, context: RequestContext): Promise<void> {
    this.#found = found;
    const rows = found.page.data;
    if (!rows.every(isWhole)) return this.#openInParts(rows, context);
    this.#dependencies.reads.spend(context, await this.#put(rows, context));
    await this.#shown.show(context, this.#total);
  }

  /** Opens rows of which some are large. A part of them is read, opened and dropped before the next one is read. */
  #openInParts(rows: readonly FoundRow[], context: RequestContext, isLast = false): Promise<void> {
    const { pool, largePages, reads } = this.#dependencies;
    const scope = scopeOf(context, this.#permission);
    const read = (ids: readonly string[]) =>
      this.#found ? readAmong(pool, scope, this.#found.condition, ids) : Promise.resolve([]);
    return largePages.run(context, rows, async () => {
      let ms = 0;
      try {
        for (const part of partsOf(rows)) {
          ms += await this.#put(await wholeRowsOf(part, read), context, isLast);
          await this.#shown.open(context);
        }
      } finally {
        reads.spend(context, ms);
      }
    });
  }

  /** Gives the time that the thread takes for these tokens, about, in milliseconds. */
  async #put(rows: readonly TokenRow[], context: RequestContext, isLast = false): Promise<number> {
    await requireSignedRows(this.#dependencies.keyRing, context.principal.tenant, rows);
    const granted = rows.map((row) => grantedOf(context, this.#permission, row));
    this.#shown.put(isLast ? granted.map(redacted) : granted, context);
    requireSmallPage(this.#shown.granted, this.#madeOf);
    return workOf(granted);
  }

  async renew(context: RequestContext, isLast: boolean): Promise<boolean> {
    const ids = await this.#shown.overtaken(context);
    if (ids.length === 0 || !this.#found) return false;
    const { pool } = this.#dependencies;
    const rows = await findAmong(pool, scopeOf(context, this.#permission), this.#found.condition, ids);
    const stay = new Set(rows.map(({ id }) => id));
    this.#shown.drop(ids.filter((id) => !stay.has(id)));
    await this.#openInParts(rows, context, isLast);
    return true;
  }

  record(context: RequestContext): Promise<void> {
    return this.#shown.record(context, this.#total);
  }

  answer(): Answer | undefined {
    if (!this.#found || !this.#shown.isOnRecord) return undefined;
    const pagination = paginationOf(this.#total, this.#found.request);
    return { body: { pagination, data: this.#shown.tokens }, ...this.#madeOf };
  }

  get #madeOf(): MadeOf {
    const told = this.#found?.told ?? {};
    return { ...told, tokens: [...this.#shown.seen(this.#permission), ...(told.tokens ?? [])] };
  }

  /** Tokens that have left the page do not count. */
  get #total(): number {
    if (!this.#found) return 0;
    const { pagination, data } = this.#found.page;
    return pagination.total_items - (data.length - this.#shown.granted.length);
  }
}

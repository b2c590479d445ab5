import { holderOf } from '@token-vault/access';
import {
  entityTypeOfToken,
  ValidationError,
  type DetokenizeAnswer,
  type Json,
  type Secret,
  type Token,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import {
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  findTokenReferences,
  substituteTokens,
  type DetokenizedToken,
  type Expressions,
  type TokenReferences,
} from '@token-vault/expressions';
import {
  DataDependentError,
  deniedEvent,
  type Answer,
  type AuditTrail,
  type HandlersOf,
  type PendingAnswer,
  type RequestContext,
} from '@token-vault/operations';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { FairReads } from '../fair-reads.ts';
import { accessTo } from './granted.ts';
import type { LargePages } from './large-pages.ts';
import { isWhole, partsOf, wholeRowsOf, type FoundRow } from './large-rows.ts';
import { PageBytes } from './page-bytes.ts';
import { findTokensByIds, readTokensByIds } from './queries.ts';
import { isExpired, type TokenRow } from './row.ts';
import { asRead, redacted, ShownTokens, type GrantedToken } from './show.ts';
import { requireSignedRows } from './signed-rows.ts';

export interface DetokenizeDependencies {
  readonly pool: Pool;
  readonly reads: FairReads;
  readonly largePages: LargePages;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
}

/** The tokens of one request that are looked up, recorded and opened at once. */
const pageSize = 100;

type NotOpened = DetokenizeAnswer['not_opened'][number];

const closed: DetokenizedToken = { data: undefined, token: undefined };

/** The library names each field `args.<field>`. In this request the fields are those of the body. */
const fieldOf = (path: string): string => path.replace(/^args/, 'body');

function asRefusal(error: unknown): unknown {
  if (!(error instanceof ExpressionSyntaxError || error instanceof ExpressionEvaluationError)) return error;
  return ValidationError.of(fieldOf(error.field ?? 'args'), error.message.replaceAll('arguments', 'body'));
}

function referencesOf(body: Secret<Json>): TokenReferences {
  try {
    return findTokenReferences(body.expose());
  } catch (error) {
    throw asRefusal(error);
  }
}

/** The values of a token that an expression can read. */
function detokenized(token: Token): DetokenizedToken {
  let whole: Json | undefined;
  return {
    data: token.data,
    // Made once, when an expression reads it. Absent properties are left out, as in any answer.
    get token() {
      return (whole ??= JSON.parse(JSON.stringify(token)) as Json);
    },
  };
}

/** The answer to one request. */
class Detokenization implements PendingAnswer {
  readonly #dependencies: DetokenizeDependencies;
  readonly #body: Secret<Json>;
  readonly #shown: ShownTokens;
  /** The tokens that the body names, in order. */
  readonly #ids: readonly string[];
  readonly #notOpened = new Map<string, NotOpened['reason']>();
  #data: Json = null;

  constructor(dependencies: DetokenizeDependencies, body: Secret<Json>, { tokens }: TokenReferences) {
    this.#dependencies = dependencies;
    this.#body = body;
    this.#ids = [...tokens.keys()];
    this.#shown = new ShownTokens(dependencies, asRead(dependencies, 'read'));
  }

  async #rowsOf(ids: readonly string[], context: RequestContext): Promise<FoundRow[]> {
    const reader = this.#dependencies.reads.of(context);
    const rows = await findTokensByIds(reader, context.principal.tenant.id, ids);
    return rows.filter((row) => !isExpired(row, context.now));
  }

  /** `token: <id>` may be meant for a token whose id begins with `token:`. @throws ValidationError as reactor arguments do */
  async requireUnambiguous({ ambiguous }: TokenReferences, context: RequestContext): Promise<void> {
    for (const ids of pagesOf([...ambiguous.keys()])) {
      const rows = await this.#rowsOf(ids, context);
      const row = rows.find((each) => accessTo(context, 'token:read', each).isGranted);
      if (!row) continue;
      const message =
        'could name two tokens: all of one, or one whose id begins with "token:"; for that one write token: before its id';
      throw ValidationError.of(fieldOf(ambiguous.get(row.id) ?? 'args'), message);
    }
  }

  /**
   * Opens tokens, and evaluates the expressions over all open tokens. Other requests run between two pages of tokens. An error that depends
   * on tokens is thrown after these tokens are recorded.
   */
  async evaluate(context: RequestContext, ids = this.#ids, isLast = false): Promise<void> {
    const { expressions } = this.#dependencies;
    const budget = expressions.of(context.identity, holderOf(context.principal));
    const tokens = new Map<string, DetokenizedToken>();
    try {
      for (const page of pagesOf(ids)) {
        await this.#openPage(page, context, isLast);
        await nextTurn();
      }
      for (const token of this.#shown.tokens) tokens.set(token.id, detokenized(token));
      this.#data = await substituteTokens(budget, this.#body.expose(), (id) => tokens.get(id) ?? closed, {
        isShown: true,
      });
    } catch (error) {
      throw await this.#recordFailure(error, context);
    }
  }

  async #openPage(ids: readonly string[], context: RequestContext, isLast: boolean): Promise<void> {
    const rows = await this.#rowsOf(ids, context);
    this.#shown.drop(ids);
    for (const id of ids) this.#notOpened.set(id, 'not-found');
    if (rows.every(isWhole)) return this.#openRows(rows, context, isLast);
    const { pool, largePages } = this.#dependencies;
    const read = async (large: readonly string[]) => {
      const whole = await readTokensByIds(pool, context.principal.tenant.id, large);
      return whole.filter((row) => !isExpired(row, context.now));
    };
    await largePages.run(context, rows, async () => {
      for (const part of partsOf(rows)) await this.#openRows(await wholeRowsOf(part, read), context, isLast);
    });
  }

  async #openRows(rows: readonly TokenRow[], context: RequestContext, isLast: boolean): Promise<void> {
    await requireSignedRows(this.#dependencies.keyRing, context.principal.tenant, rows);
    const granted = await this.#decideAndRecord(rows, context);
    this.#shown.put(isLast ? granted.map(redacted) : granted, context);
    const bytes = new PageBytes();
    if (this.#shown.granted.some((each) => !bytes.fits(each)))
      throw ValidationError.of('body', 'names tokens of more than 4 MiB together');
    await this.#shown.open(context);
  }

  /** Gives the tokens that the caller may read. Keeps the reason why another is not opened, and records refusals. */
  async #decideAndRecord(rows: readonly TokenRow[], context: RequestContext): Promise<GrantedToken[]> {
    const granted: GrantedToken[] = [];
    const denied: TokenRow[] = [];
    for (const row of rows) {
      const access = accessTo(context, 'token:read', row);
      if (access.isGranted) {
        granted.push({ ...access, row });
        this.#notOpened.delete(row.id);
      } else {
        denied.push(row);
        this.#notOpened.set(row.id, access.needsReason ? 'needs-reason' : 'forbidden');
      }
    }
    if (denied.length > 0) await recordDenied(this.#dependencies.audit, denied, context);
    return granted;
  }

  /**
   * The error of this request. It depends on the tokens that were opened, because they decide which expression fails. So these tokens are
   * recorded before it is thrown.
   */
  async #recordFailure(error: unknown, context: RequestContext): Promise<unknown> {
    const failure = asRefusal(error);
    const tokens = this.#shown.seen('token:read');
    if (!(failure instanceof ValidationError) || tokens.length === 0) return failure;
    this.#shown.dropClosed();
    if (!this.#shown.isOnRecord) await this.record(context);
    return new DataDependentError(failure, { tokens });
  }

  async renew(context: RequestContext, isLast: boolean): Promise<boolean> {
    const ids = await this.#shown.overtaken(context);
    if (ids.length > 0) await this.evaluate(context, ids, isLast);
    return ids.length > 0;
  }

  record(context: RequestContext): Promise<void> {
    return this.#shown.record(context);
  }

  answer(): Answer | undefined {
    if (!this.#shown.isOnRecord) return undefined;
    const data = new Map(this.#shown.tokens.map((token) => [token.id, token.data]));
    const notOpened: NotOpened[] = [];
    for (const id of this.#ids) {
      const reason = this.#notOpened.get(id);
      if (reason !== undefined) notOpened.push({ id, reason });
      // The token was deleted meanwhile.
      else if (!data.has(id)) notOpened.push({ id, reason: 'not-found' });
      else if (data.get(id) === undefined) notOpened.push({ id, reason: 'redacted' });
    }
    const body: DetokenizeAnswer = { data: this.#data, not_opened: notOpened };
    return { body, tokens: this.#shown.seen('token:read') };
  }
}

function* pagesOf(ids: readonly string[]): Generator<readonly string[]> {
  for (let from = 0; from < ids.length; from += pageSize) yield ids.slice(from, from + pageSize);
}

/**
 * Replaces the expressions of any JSON by the tokens that they name, as the caller may see them. The rules of a single read hold for each
 * token, so a caller that may not see the plaintext gets the mask. A token that is not opened becomes null, and the answer names it.
 */
export function createDetokenize(
  dependencies: DetokenizeDependencies,
): Pick<HandlersOf<'query'>, 'detokenize'> {
  return {
    async detokenize({ body }, context) {
      const references = referencesOf(body);
      const pending = new Detokenization(dependencies, body, references);
      await pending.requireUnambiguous(references, context);
      await pending.evaluate(context);
      return { pending };
    },
  };
}

/** One record for each token that the caller may not read, as single reads have. If it fails, nothing is shown. */
async function recordDenied(
  audit: AuditTrail,
  rows: readonly TokenRow[],
  context: RequestContext,
): Promise<void> {
  const events = rows.map(({ id, type }) =>
    deniedEvent(context, {}, { entity: { type: entityTypeOfToken(type), id }, permission: 'token:read' }),
  );
  await audit.recordAll(context, events);
}

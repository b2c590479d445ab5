import { decideTokenAccess, shownBy, type TokenAccess } from '@token-vault/access';
import {
  AccessDenied,
  entityTypeOfToken,
  ValidationError,
  type DetokenizeAnswer,
  type Json,
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
  type AnswerToken,
  type AuditTrail,
  type HandlersOf,
  type RequestContext,
} from '@token-vault/operations';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Pool } from 'pg';
import type { FairReads } from '../fair-reads.ts';
import { PageBytes } from './page-bytes.ts';
import { areOvertaken } from './overtaken.ts';
import { findTokensByIds } from './queries.ts';
import { cvcEndOfRow, isExpired, type TokenRow } from './row.ts';
import { createTokenShow, type GrantedToken, type ShowTokens } from './show.ts';
import { requireSignedRows } from './signed-rows.ts';

export interface DetokenizeDependencies {
  readonly pool: Pool;
  readonly reads: FairReads;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
}

/** The tokens of one request that are looked up, recorded and opened at once. */
const pageSize = 100;

type NotOpened = DetokenizeAnswer['not_opened'][number];

const closed: DetokenizedToken = { data: undefined, token: undefined };

/** Arguments are named `args.<field>` by the library that finds their references. */
const fieldOf = (path: string): string => path.replace(/^args/, 'body');

function asRefusal(error: unknown): unknown {
  if (!(error instanceof ExpressionSyntaxError || error instanceof ExpressionEvaluationError)) return error;
  return ValidationError.of(fieldOf(error.field ?? 'args'), error.message.replaceAll('arguments', 'body'));
}

function referencesOf(body: Json): TokenReferences {
  try {
    return findTokenReferences(body);
  } catch (error) {
    throw asRefusal(error);
  }
}

/** One request; its pages share the budget of bytes. */
class Detokenization {
  readonly #dependencies: DetokenizeDependencies;
  readonly #context: RequestContext;
  readonly #show: ShowTokens;
  readonly #bytes = new PageBytes();
  readonly shown = new Map<string, DetokenizedToken>();
  readonly notOpened: NotOpened[] = [];
  readonly seen: AnswerToken[] = [];
  readonly #opened: Pick<TokenRow, 'id' | 'signature'>[] = [];

  constructor(dependencies: DetokenizeDependencies, show: ShowTokens, context: RequestContext) {
    this.#dependencies = dependencies;
    this.#show = show;
    this.#context = context;
  }

  async #rowsOf(ids: readonly string[]): Promise<TokenRow[]> {
    const { id: tenantId } = this.#context.principal.tenant;
    const rows = await findTokensByIds(this.#dependencies.reads.of(tenantId), tenantId, ids);
    return rows.filter((row) => !isExpired(row, this.#context.now));
  }

  #accessTo({ id, container }: TokenRow): TokenAccess {
    return decideTokenAccess(this.#context.principal, 'token:read', { id, containers: [container] });
  }

  /** `token: <id>` may be meant for a token whose id begins with `token:`. @throws ValidationError as reactor arguments do */
  async requireUnambiguous({ ambiguous }: TokenReferences): Promise<void> {
    for (const ids of pagesOf([...ambiguous.keys()])) {
      const rows = await this.#rowsOf(ids);
      const row = rows.find((each) => this.#accessTo(each).isGranted);
      if (!row) continue;
      const message =
        'could name two tokens: all of one, or one whose id begins with "token:"; for that one write token: before its id';
      throw ValidationError.of(fieldOf(ambiguous.get(row.id) ?? 'args'), message);
    }
  }

  /** Opens a page of tokens. The records of what is shown and of what is refused are durable afterwards. */
  async openPage(ids: readonly string[]): Promise<void> {
    const { now, principal } = this.#context;
    const rows = await this.#rowsOf(ids);
    await requireSignedRows(this.#dependencies.keyRing, principal.tenant, rows);
    const granted = await this.#grantedOf(ids, rows);
    for (const { row, transform } of granted) {
      this.#opened.push({ id: row.id, signature: row.signature });
      const shown = { permission: 'token:read', transform: shownBy(transform, row.mask !== null) } as const;
      this.seen.push({
        id: row.id,
        createdAt: row.created_at.toISOString(),
        expiresAt: row.expires_at?.toISOString(),
        by: 'seen',
        shown,
        cvcEndsAt: cvcEndOfRow(row, now),
      });
    }
    if (granted.some((each) => !this.#bytes.fits(each)))
      throw ValidationError.of('body', 'names tokens of more than 4 MiB together');
    if (granted.length === 0) return;
    for (const token of await this.#show(granted, this.#context, 'read')) {
      let whole: Json | undefined;
      this.shown.set(token.id, {
        data: token.data,
        // Made once, when an expression asks for it. Absent properties are left out, as in any answer.
        get token() {
          return (whole ??= JSON.parse(JSON.stringify(token)) as Json);
        },
      });
      if (token.data === undefined) this.notOpened.push({ id: token.id, reason: 'redacted' });
    }
    // It was deleted meanwhile.
    for (const { row } of granted)
      if (!this.shown.has(row.id)) this.notOpened.push({ id: row.id, reason: 'not-found' });
  }

  isOvertaken(): Promise<boolean> {
    const { id: tenantId } = this.#context.principal.tenant;
    return areOvertaken(this.#dependencies.pool, tenantId, this.#opened);
  }

  /** The error of this request. Which expression failed, and why, depends on the tokens that were opened. */
  failureBy(error: unknown): unknown {
    const failure = asRefusal(error);
    return failure instanceof ValidationError && this.seen.length > 0
      ? new DataDependentError(failure, { tokens: this.seen })
      : failure;
  }

  /** The tokens of a page that the caller may read; what becomes of the others is noted, and refusals are recorded. */
  async #grantedOf(ids: readonly string[], rows: readonly TokenRow[]): Promise<GrantedToken[]> {
    const byId = new Map(rows.map((row) => [row.id, row]));
    const granted: GrantedToken[] = [];
    const denied: TokenRow[] = [];
    for (const id of ids) {
      const row = byId.get(id);
      const access = row && this.#accessTo(row);
      if (!access) this.notOpened.push({ id, reason: 'not-found' });
      else if (access.isGranted) granted.push({ ...access, row });
      else {
        denied.push(row);
        this.notOpened.push({ id, reason: access.needsReason ? 'needs-reason' : 'forbidden' });
      }
    }
    if (denied.length > 0) await recordDenied(this.#dependencies.audit, denied, this.#context);
    return granted;
  }
}

function* pagesOf(ids: readonly string[]): Generator<readonly string[]> {
  for (let from = 0; from < ids.length; from += pageSize) yield ids.slice(from, from + pageSize);
}

/**
 * Replaces the expressions of any JSON by the tokens that they name, as the caller may see them. The rules of a single read hold for each
 * token: who may not have it revealed gets its mask. A token that does not open becomes null and is named. The record of each page of tokens is
 * durable before the answer leaves, and between pages other requests have their turn.
 */
export function createDetokenize(
  dependencies: DetokenizeDependencies,
): Pick<HandlersOf<'query'>, 'detokenize'> {
  const { keyRing, audit, expressions } = dependencies;
  const show = createTokenShow(keyRing, audit, expressions);
  return {
    async detokenize({ body }, context) {
      const references = referencesOf(body);
      const work = new Detokenization(dependencies, show, context);
      await work.requireUnambiguous(references);
      const budget = expressions.of(context.identity, context.principal.tenant.id);
      try {
        for (const ids of pagesOf([...references.tokens.keys()])) {
          await work.openPage(ids);
          await nextTurn();
        }
        const data = await substituteTokens(budget, body, (id) => work.shown.get(id) ?? closed);
        const answer: DetokenizeAnswer = { data, not_opened: work.notOpened };
        return { body: answer, tokens: work.seen, isOvertaken: () => work.isOvertaken() };
      } catch (error) {
        throw work.failureBy(error);
      }
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
    context.event(AccessDenied, {
      entity_type: entityTypeOfToken(type),
      entity_id: id,
      permission: 'token:read',
      operation: 'detokenize',
    }),
  );
  await audit.recordAll(context, events);
}

import { isErased } from '@token-vault/crypto';
import { holderOf, seesFingerprints, shownBy } from '@token-vault/access';
import {
  TokensRead,
  type DataOf,
  type Json,
  type Token,
  type TokenPermission,
  type Transform,
  type VaultEvent,
} from '@token-vault/contracts';
import { isSimple, limits, type Expressions } from '@token-vault/expressions';
import type { AnswerToken, AuditTrail, RequestContext } from '@token-vault/operations';
import { isDeepStrictEqual } from 'node:util';
import type { Pool } from 'pg';
import { keptOf } from './large-rows.ts';
import { overtakenOf, type OpenedRow } from './overtaken.ts';
import { showToken, type TokenOpener } from './reveal.ts';
import { shownCvcEndOfRow, type OpenRow, type TokenRow } from './row.ts';
import { Turns } from './turns.ts';

/** A token that the caller may see, with the transform that applies to it. */
export interface GrantedToken<Row = TokenRow> {
  readonly row: Row;
  readonly transform: Transform;
  readonly isBreakGlass?: true;
}

/** The token without its data: others change it faster than it can be shown. */
export const redacted = ({ row }: GrantedToken): GrantedToken => ({ row, transform: 'redact' });

export interface ShowDependencies {
  readonly pool: Pool;
  readonly keyRing: TokenOpener;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
}

type Reading = DataOf<'TokensRead'>;
export type Entry = Reading['tokens'][number];

/** Maximum number of tokens in one event. */
const entriesOfEvent = 100;
/** An answer that has taken longer than this before its tokens are opened is recorded after they are open. */
const quickMs = 50;

interface Opened<Shown> extends GrantedToken<OpenRow>, OpenedRow {
  /** Undefined until the token is open. */
  readonly token?: Shown;
}

/** How the tokens of an answer are shown and recorded. */
export interface Form<Shown> {
  /** Gives what opens a token for the caller. */
  opener(context: RequestContext): (token: GrantedToken) => Promise<Shown>;
  /** The record of tokens. `total`: of a list or search. */
  eventsOf(context: RequestContext, entries: readonly Entry[], total: number): readonly VaultEvent[];
  /** Whether an answer without tokens is recorded. */
  readonly isEmptyRecorded: boolean;
}

/** The tokens of one answer, the transforms by which they are shown, and the recorded entries. The answer may leave when all are recorded. */
export class ShownTokens<Shown = Token> {
  readonly #dependencies: Pick<ShowDependencies, 'pool' | 'audit'>;
  readonly #form: Form<Shown>;
  /** By id, in the order of the answer. */
  readonly #opened = new Map<string, Opened<Shown>>();
  /** Those that are not open yet. */
  readonly #closed = new Map<string, GrantedToken>();
  readonly #recorded = new Map<string, Entry>();
  readonly #begunMs = performance.now();
  #hasRecord = false;

  constructor(dependencies: Pick<ShowDependencies, 'pool' | 'audit'>, form: Form<Shown>) {
    this.#dependencies = dependencies;
    this.#form = form;
  }

  get granted(): readonly GrantedToken<OpenRow>[] {
    return [...this.#opened.values()];
  }

  get tokens(): readonly Shown[] {
    return [...this.#opened.values()].flatMap(({ token }) => (token === undefined ? [] : [token]));
  }

  /** The tokens as the answer names them. If code of a reactor asked, these are the tokens that it was shown. */
  seen(permission: TokenPermission): AnswerToken[] {
    return [...this.#opened.values()].map(({ row, transform, openedAt }) => ({
      id: row.id,
      createdAt: row.created_at.toISOString(),
      expiresAt: row.expires_at?.toISOString(),
      by: 'seen',
      shown: { permission, transform: shownBy(transform, row.mask !== null) },
      cvcEndsAt: shownCvcEndOfRow(row, transform, openedAt),
    }));
  }

  /** Adds tokens to the answer, or replaces those with the same ids. They are not open yet. */
  put(tokens: readonly GrantedToken[], { now }: RequestContext): void {
    for (const each of tokens) {
      this.#opened.set(each.row.id, { ...each, openedAt: now });
      this.#closed.set(each.row.id, each);
    }
  }

  drop(ids: Iterable<string>): void {
    for (const id of ids) {
      this.#opened.delete(id);
      this.#closed.delete(id);
    }
  }

  /** Removes the tokens that are not open. Called when the request fails. */
  dropClosed(): void {
    this.drop([...this.#opened.values()].flatMap(({ row, token }) => (token ? [] : row.id)));
  }

  /** Opens the tokens that are not open. One that was deleted meanwhile is left out. */
  async open(context: RequestContext): Promise<void> {
    const open = this.#form.opener(context);
    const closed = [...this.#closed.values()];
    this.#closed.clear();
    await Promise.all(closed.map((each) => this.#openOne(each, open)));
  }

  /**
   * Opens the tokens. For an answer that is quick, the record is written at the same time. Otherwise it is written afterwards, because the
   * tokens may have changed by then.
   */
  async show(context: RequestContext, total?: number): Promise<void> {
    const isQuick =
      performance.now() - this.#begunMs < quickMs && [...this.#closed.values()].every(isQuicklyOpened);
    await Promise.all([this.open(context), isQuick ? this.record(context, total) : undefined]);
  }

  async #openOne(closed: GrantedToken, open: (token: GrantedToken) => Promise<Shown>): Promise<void> {
    const { id } = closed.row;
    const opened = this.#opened.get(id);
    if (!opened) return;
    try {
      const token = await open(closed);
      this.#opened.set(id, { ...opened, row: keptOf(closed.row), token });
    } catch (error) {
      if (!isErased(error)) throw error;
      this.#opened.delete(id);
    }
  }

  /** The ids of the tokens that have ended, were moved or were changed since they were read. */
  overtaken({ principal, now }: RequestContext): Promise<string[]> {
    return overtakenOf(this.#dependencies.pool, principal.tenant.id, [...this.#opened.values()], now);
  }

  /** Whether every token of the answer is recorded as it is shown. A list or search needs a record also when it shows no token. */
  get isOnRecord(): boolean {
    const needsRecord = this.#opened.size > 0 || this.#form.isEmptyRecorded;
    return (this.#hasRecord || !needsRecord) && this.#missing().length === 0;
  }

  /**
   * Records the tokens that are not recorded yet as they are shown.
   * @param total the total of a list or search, which is part of the answer
   */
  async record(context: RequestContext, total = 0): Promise<void> {
    const entries = this.#missing();
    await this.#dependencies.audit.recordAll(context, this.#form.eventsOf(context, entries, total));
    this.#hasRecord = true;
    for (const entry of entries) this.#recorded.set(entry.token_id, entry);
  }

  #missing(): Entry[] {
    const entries: Entry[] = [];
    for (const opened of this.#opened.values()) {
      const entry = entryOf(opened);
      if (!isDeepStrictEqual(this.#recorded.get(entry.token_id), entry)) entries.push(entry);
    }
    return entries;
  }
}

const entryOf = ({ row, transform, isBreakGlass }: GrantedToken<OpenRow>): Entry => ({
  token_id: row.id,
  token_type: row.type,
  transform: shownBy(transform, row.mask !== null),
  ...(isBreakGlass ? { break_glass: true } : {}),
});

/** A token is shown to readers: revealed, or by its mask. */
export const asRead = (
  { keyRing, expressions: all }: Pick<ShowDependencies, 'keyRing' | 'expressions'>,
  operation: Reading['operation'],
): Form<Token> => ({
  opener({ identity, principal, now }) {
    const expressions = all.of(identity, holderOf(principal));
    const showing = { keyRing, expressions, turns: new Turns(), now };
    const hasFingerprints = seesFingerprints(principal);
    return async ({ row, transform }) => {
      const shown = await showToken(showing, row, transform);
      return hasFingerprints ? shown : { ...shown, fingerprint: undefined };
    };
  },
  eventsOf(context, entries, total) {
    const found = entries.length === 0 && total > 0 ? { found: total } : {};
    const events: VaultEvent[] = [];
    for (let from = 0; from === 0 || from < entries.length; from += entriesOfEvent) {
      const tokens = entries.slice(from, from + entriesOfEvent);
      events.push(context.event(TokensRead, { operation, tokens, ...found }));
    }
    return events;
  },
  isEmptyRecorded: operation !== 'read',
});

/** Whether the token is shown without a mask that needs a worker. */
const isQuicklyOpened = ({ row, transform }: GrantedToken): boolean =>
  transform !== 'mask' ||
  row.mask === null ||
  (row.data.length <= limits.threadSteps && isSimple(JSON.parse(row.mask) as Json));

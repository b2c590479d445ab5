import {
  ApplicationCreated,
  applicationEvents,
  consoleSessionEvents,
  ConsoleSessionOpened,
  invocationEvents,
  ownTokenEvents,
  ProxyCreated,
  ProxyKeyAdded,
  ProxyKeyDeleted,
  ProxyUpdated,
  ReactorCreated,
  reactorEvents,
  ReactorInvoked,
  sessionEvents,
  SessionOpened,
  TenantCreated,
  tenantEvents,
  TokenCreated,
  type Statement,
} from '@token-vault/contracts';
import type { Evolve, RecordedEvent } from '@token-vault/event-store';
import type { Signer } from '../aggregates/signing.ts';
import * as applications from '../applications/state.ts';
import * as consoleSessions from '../console/state.ts';
import * as invocations from '../invocations/state.ts';
import * as proxies from '../proxies/state.ts';
import * as reactors from '../reactors/state.ts';
import * as sessions from '../sessions/state.ts';
import * as tenants from '../tenants/state.ts';
import { tokenSigner } from '../tokens/signed.ts';
import * as tokens from '../tokens/state.ts';

/** The states that an entity may have had. */
export interface Fold {
  add(event: RecordedEvent): void;
  /**
   * False when the event does not hold the whole state, and too many transactions in a row changed the entity before: the true state may be none
   * of those that are known.
   */
  canJudge(event: RecordedEvent): boolean;
  /** The statements that the vault may have signed with the event. */
  statementsAfter(event: RecordedEvent): readonly Statement[];
  copy(): Fold;
}

export interface SignedKind {
  readonly begin: () => Fold;
  /**
   * `late`: records of an older release are believed until all are signed. `the start`: no release made them without a signature.
   */
  readonly since: 'late' | 'the upgrade' | 'the start';
}

interface Aggregate<State> {
  readonly initialState: State;
  readonly evolve: Evolve<State>;
  readonly signer: Signer<State>;
}

/** Of transactions in a row that changed one token, so many states are kept. */
const mostStates = 64;

/**
 * A transaction counts as a whole or not at all. Which ones counted is not asked: a signature fits a state only if the vault has signed this
 * state, at this revision. A token belongs to one transaction at a time.
 */
class StatesOf<State> implements Fold {
  readonly #aggregate: Aggregate<State>;
  /** The states before the last transaction. */
  #before: readonly State[];
  /** The last transaction with its states, until an event that counts in any case. */
  #within: { readonly transactionId: string; readonly states: readonly State[] } | undefined;
  #isComplete = true;

  constructor(aggregate: Aggregate<State>) {
    this.#aggregate = aggregate;
    this.#before = [aggregate.initialState];
  }

  canJudge(event: RecordedEvent): boolean {
    return this.#isComplete || this.#alone(event) !== undefined;
  }

  /**
   * The same state is kept once. Else a few events that change nothing, in a transaction each, would hide the true state, and they need no
   * signature.
   */
  get #all(): readonly State[] {
    const within = this.#within?.states ?? [];
    if (within.length === 0) return this.#before;
    return [...new Map([...this.#before, ...within].map((state) => [this.#nameOf(state), state])).values()];
  }

  /** What can be signed of a state is all that later events take from it. */
  #nameOf(state: State): string {
    return JSON.stringify(this.#aggregate.signer.statementOf(state) ?? state);
  }

  #after(event: RecordedEvent, states: readonly State[]): readonly State[] {
    const alone = this.#alone(event);
    return alone ? [alone] : states.map((state) => this.#aggregate.evolve(state, event));
  }

  /** The state after an event that has all of it. */
  #alone(event: RecordedEvent): State | undefined {
    const { evolve, initialState, signer } = this.#aggregate;
    const state = evolve(initialState, event);
    return signer.statementOf(state) ? state : undefined;
  }

  add(event: RecordedEvent): void {
    const { transaction_id: transactionId } = event.metadata;
    if (transactionId === undefined) {
      this.#isComplete ||= this.#alone(event) !== undefined;
      this.#before = this.#after(event, this.#all);
      this.#within = undefined;
      return;
    }
    if (this.#within?.transactionId !== transactionId) {
      const all = this.#all;
      this.#isComplete &&= all.length <= mostStates;
      this.#before = all.slice(-mostStates);
    }
    const states = this.#within?.transactionId === transactionId ? this.#within.states : this.#before;
    this.#within = { transactionId, states: this.#after(event, states) };
  }

  statementsAfter(event: RecordedEvent): readonly Statement[] {
    const { signer } = this.#aggregate;
    return this.#after(event, this.#all).flatMap((state) => signer.statementOf(state) ?? []);
  }

  copy(): Fold {
    const copy = new StatesOf(this.#aggregate);
    copy.#before = this.#before;
    copy.#within = this.#within;
    copy.#isComplete = this.#isComplete;
    return copy;
  }
}

const kindOf = <State>(aggregate: Aggregate<State>, since: SignedKind['since']): SignedKind => ({
  begin: () => new StatesOf(aggregate),
  since,
});

export const tenantKind = kindOf({ ...tenants, signer: tenants.tenantSigner }, 'the upgrade');

const kinds: readonly [readonly { readonly type: string }[], SignedKind][] = [
  [applicationEvents, kindOf({ ...applications, signer: applications.applicationSigner }, 'the upgrade')],
  [sessionEvents, kindOf({ ...sessions, signer: sessions.sessionSigner }, 'the upgrade')],
  [
    consoleSessionEvents,
    kindOf({ ...consoleSessions, signer: consoleSessions.consoleSessionSigner }, 'the start'),
  ],
  [tenantEvents, tenantKind],
  [ownTokenEvents, kindOf({ ...tokens, signer: tokenSigner }, 'late')],
  [reactorEvents, kindOf({ ...reactors, signer: reactors.reactorSigner }, 'late')],
  [
    [ProxyCreated, ProxyUpdated, ProxyKeyAdded, ProxyKeyDeleted],
    kindOf({ ...proxies, signer: proxies.proxySigner }, 'the start'),
  ],
  [invocationEvents, kindOf({ ...invocations, signer: invocations.invocationSigner }, 'late')],
];

/** By the type of an event. */
export const signedKinds: ReadonlyMap<string, SignedKind> = new Map(
  kinds.flatMap(([events, kind]) => events.map(({ type }) => [type, kind] as const)),
);

/** The types of the events with which an entity begins. A token's id may be used again: then its stream has several. */
export const creations: ReadonlySet<string> = new Set(
  [
    ApplicationCreated,
    SessionOpened,
    ConsoleSessionOpened,
    TenantCreated,
    TokenCreated,
    ReactorCreated,
    ProxyCreated,
    ReactorInvoked,
  ].map(({ type }) => type),
);

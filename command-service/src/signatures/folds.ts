import {
  applicationEvents,
  consoleSessionEvents,
  invocationEvents,
  ownTokenEvents,
  ProxyCreated,
  ProxyKeyAdded,
  ProxyKeyDeleted,
  ProxyUpdated,
  reactorEvents,
  sessionEvents,
  tenantEvents,
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
  /** What the vault may have signed with the event. */
  statementsAfter(event: RecordedEvent): readonly Statement[];
  copy(): Fold;
}

export interface SignedKind {
  readonly begin: () => Fold;
  /**
   * `late`: records of an older release are believed until all are signed. `from the start`: no release made them without a signature.
   */
  readonly since: 'late' | 'the upgrade' | 'the start';
}

interface Aggregate<State> {
  readonly initialState: State;
  readonly evolve: Evolve<State>;
  readonly signer: Signer<State>;
}

/** A token that was changed in so many transactions in a row has one state for each of them. */
const mostStates = 64;

/**
 * An event of a transaction may count or not. Which ones counted is not asked: a signature fits a state only if the vault has signed this
 * state, at this revision.
 */
class StatesOf<State> implements Fold {
  readonly #aggregate: Aggregate<State>;
  #states: readonly State[];

  constructor(aggregate: Aggregate<State>, states: readonly State[] = [aggregate.initialState]) {
    this.#aggregate = aggregate;
    this.#states = states;
  }

  #after(event: RecordedEvent): readonly State[] {
    const { evolve, initialState, signer } = this.#aggregate;
    const alone = evolve(initialState, event);
    if (signer.statementOf(alone)) return [alone];
    return this.#states.map((state) => evolve(state, event));
  }

  add(event: RecordedEvent): void {
    const after = this.#after(event);
    const isSure = event.metadata.transaction_id === undefined;
    this.#states = isSure ? after : [...this.#states, ...after].slice(-mostStates);
  }

  statementsAfter(event: RecordedEvent): readonly Statement[] {
    const { signer } = this.#aggregate;
    return this.#after(event).flatMap((state) => signer.statementOf(state) ?? []);
  }

  copy(): Fold {
    return new StatesOf(this.#aggregate, this.#states);
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

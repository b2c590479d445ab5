import { setTimeout as delay } from 'node:timers/promises';
import type { EventStore, ExpectedRevision, Position } from '@token-vault/event-store';
import { noRevision, RevisionConflictError } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { Attempts } from './attempts.ts';
import type { Evolve } from './evolve.ts';
import type { Fact } from './fact.ts';
import { signed, type Signing } from './signing.ts';

export { fact, type Fact } from './fact.ts';

/** The pure functions of an aggregate. `decide` throws a DomainError when a rule forbids the command. */
export interface Decider<State, Command> {
  readonly initialState: State;
  readonly evolve: Evolve<State>;
  readonly decide: (state: State, command: Command) => readonly Fact[];
}

export interface Loaded<State> {
  readonly state: State;
  readonly revision: number;
}

/** The result of a command. `position` is undefined when the command had nothing to change. */
export interface Executed<State> {
  readonly position: Position | undefined;
  readonly before: State;
  /** An earlier attempt stored the events: nothing was decided, and `before` is the present state. */
  readonly isRepeat?: true;
}

/** Rebuilds an aggregate from its stream. A decision depends on the log only. */
export async function load<State>(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  decider: Pick<Decider<State, never>, 'initialState' | 'evolve'>,
): Promise<Loaded<State>> {
  let state = decider.initialState;
  let revision = noRevision;
  for await (const event of store.readStream(stream)) {
    state = decider.evolve(state, event);
    revision = event.revision;
  }
  return { state, revision };
}

export const expectedAt = (revision: number): ExpectedRevision =>
  revision === noRevision ? 'no-stream' : revision;

/** The longest time for which a command is repeated. A caller does not benefit from a longer wait. */
const maxRetryMs = 5_000;
const firstPauseMs = 4;
const longestPauseMs = 64;

/**
 * A random pause, so that two writers that met do not meet again. The range grows, so that one of many writers
 * succeeds.
 */
const pauseMs = (attempt: number): number =>
  Math.random() * Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(attempt, 10));

/**
 * Repeats `attempt` when another writer appended first: each attempt reads and decides again. After `maxRetryMs` the
 * caller gets the conflict (409).
 */
export async function retryOnConflict<Result>(attempt: () => Promise<Result>): Promise<Result> {
  const start = performance.now();
  for (let count = 0; ; count += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof RevisionConflictError) || performance.now() - start > maxRetryMs) throw error;
    }
    await delay(pauseMs(count));
  }
}

export interface Execution<State, Command> {
  readonly store: EventStore;
  readonly stream: string;
  readonly decider: Decider<State, Command>;
  readonly command: Command;
  /** Makes the event. Its id and metadata come from the request. */
  readonly event: RequestContext['event'];
  /** For a command that must not be done again after others changed its result. Its events have the ids of the command. */
  readonly attempts?: Attempts;
  /** For aggregates that decide about access. */
  readonly signing?: Signing<State>;
}

/** Loads, decides and appends. Repeats on a conflict, unless an earlier attempt stored the events. */
export function execute<State, Command>(execution: Execution<State, Command>): Promise<Executed<State>> {
  const { store, stream, decider, command, event, signing, attempts } = execution;
  return retryOnConflict(async () => {
    const { state, revision } = await load(store, stream, decider);
    const stored = await attempts?.stored(store, stream);
    if (stored) return { position: stored.position, before: state, isRepeat: true };
    const facts = decider.decide(state, command);
    if (facts.length === 0) return { position: undefined, before: state };
    const plain = attempts?.events(facts) ?? facts.map((each) => event(each, each.data));
    const events = signing ? await signed(plain, { state, revision }, decider.evolve, signing) : plain;
    const { position } = await store.append(stream, events, expectedAt(revision));
    return { position, before: state };
  });
}

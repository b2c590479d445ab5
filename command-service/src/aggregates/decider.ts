import { setTimeout as delay } from 'node:timers/promises';
import type { EventName, NewDataOf, VaultEventType } from '@token-vault/contracts';
import type { EventStore, ExpectedRevision, Position, RecordedEvent } from '@token-vault/event-store';
import { noRevision, RevisionConflictError } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { signed, type Signing } from './signing.ts';

/** An event that a decider wants appended: name and data, without id and metadata. */
export type Fact<Type extends VaultEventType = VaultEventType> = Type extends VaultEventType
  ? EventName<Type> & { readonly data: NewDataOf<Type> }
  : never;

/** The pure heart of an aggregate. `decide` throws a DomainError when a rule forbids the command. */
export interface Decider<State, Command> {
  readonly initialState: State;
  readonly evolve: (state: State, event: RecordedEvent) => State;
  readonly decide: (state: State, command: Command) => readonly Fact[];
}

export interface Loaded<State> {
  readonly state: State;
  readonly revision: number;
}

/** What a command did. `position` is undefined when there was nothing to do. */
export interface Executed<State> {
  readonly position: Position | undefined;
  readonly before: State;
}

/** The compiler checks the data by the event's name. */
export const fact = <Type extends VaultEventType>(
  { type, version }: EventName<Type>,
  data: NewDataOf<Type>,
): Fact<Type> => ({ type, version, data }) as Fact<Type>;

/** Rebuilds an aggregate from its stream: the log is the only thing a decision rests on. */
export async function load<State>(
  store: EventStore,
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

/** Longest that a command is tried again; a second more is no use to a caller who waits. */
const maxRetryMs = 5_000;
const firstPauseMs = 4;
const longestPauseMs = 64;

/** At random, so that writers who met once do not meet again; longer each time, so that of many one gets through. */
const pauseMs = (attempt: number): number =>
  Math.random() * Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(attempt, 10));

/**
 * Runs `attempt` again when another writer came first: what it decides is decided anew on what is now true. After some
 * seconds the conflict is the caller's to see (409).
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
  /** Makes the event: its id and metadata come from the request. */
  readonly event: RequestContext['event'];
  /** Of aggregates that say who may do what. */
  readonly signing?: Signing<State>;
}

/** Load, decide, append; again on conflict. */
export function execute<State, Command>(execution: Execution<State, Command>): Promise<Executed<State>> {
  const { store, stream, decider, command, event, signing } = execution;
  return retryOnConflict(async () => {
    const { state, revision } = await load(store, stream, decider);
    const facts = decider.decide(state, command);
    if (facts.length === 0) return { position: undefined, before: state };
    const plain = facts.map((each) => event(each, each.data));
    const events = signing ? await signed(plain, { state, revision }, decider.evolve, signing) : plain;
    const { position } = await store.append(stream, events, expectedAt(revision));
    return { position, before: state };
  });
}

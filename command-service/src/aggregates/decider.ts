import { setTimeout as delay } from 'node:timers/promises';
import type { VaultEvent } from '@token-vault/contracts';
import {
  noRevision,
  readEntity,
  RevisionConflictError,
  type AppendResult,
  type EventStore,
  type Evolve,
  type ExpectedRevision,
  type GroupMember,
  type Position,
} from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { Attempts } from './attempts.ts';
import type { Fact } from './fact.ts';
import { isRefusal } from './refusal.ts';
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

/** Rebuilds an aggregate from its stream. A decision depends on the log only. @throws AlteredRecordError */
export async function load<State>(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  decider: Pick<Decider<State, never>, 'initialState' | 'evolve'>,
): Promise<Loaded<State>> {
  let state = decider.initialState;
  let revision = noRevision;
  for await (const event of readEntity(store, stream)) {
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
async function retryOnConflict<Result>(attempt: () => Promise<Result>): Promise<Result> {
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

/** The decision of an attempt. Without events there is nothing to change. */
export interface Decision {
  readonly events: readonly VaultEvent[];
  /** Ids of the data keys that were made for the events. They are destroyed when the events are certainly not stored. */
  readonly keys?: readonly string[];
  /** Of a group whose appends are stored together. */
  readonly member?: GroupMember | undefined;
  /** The last steps before the append, for example a claim. Gives the events as they are appended. */
  readonly finish?: () => Promise<readonly VaultEvent[]>;
}

export interface Change<Before extends { readonly revision: number }, Decided extends Decision> {
  readonly store: Pick<EventStore, 'append'>;
  readonly stream: string | ((before: Before) => string);
  /** The present state and the revision of the stream that it comes from. */
  readonly load: () => Promise<Before>;
  readonly decide: (before: Before) => Decided | Promise<Decided>;
  /** For decisions with keys. */
  readonly destroyKeys?: (keyIds: readonly string[]) => Promise<unknown>;
}

export interface Changed<Before, Decided> {
  readonly before: Before;
  readonly decided: Decided;
  /** The events that were appended. */
  readonly events: readonly VaultEvent[];
  /** Undefined when there was nothing to change. */
  readonly position: Position | undefined;
  /** As `position`. */
  readonly revision: number | undefined;
}

const nothing = { events: [], position: undefined, revision: undefined } as const;

/**
 * Loads, decides and appends. Repeats on a conflict: each attempt loads and decides again. `load` of a command that
 * creates may assume in the first attempt that the stream is new, which saves a read.
 */
export function change<Before extends { readonly revision: number }, Decided extends Decision>({
  store,
  stream,
  load,
  decide,
  destroyKeys,
}: Change<Before, Decided>): Promise<Changed<Before, Decided>> {
  return retryOnConflict(async () => {
    const before = await load();
    // Read before `decide`: the loaded object may be shared with other commands, which change it meanwhile.
    const { revision } = before;
    const decided = await decide(before);
    const { keys = [], member } = decided;
    if (decided.events.length === 0) {
      if (keys.length > 0) await destroyKeys?.(keys);
      return { before, decided, ...nothing };
    }
    const name = typeof stream === 'string' ? stream : stream(before);
    const append = (events: readonly VaultEvent[]) =>
      store.append(name, events, expectedAt(revision), { keys, member });
    const appended = await appendOrDestroy(decided, append, () => destroyKeys?.(keys));
    return { before, decided, ...appended };
  });
}

async function appendOrDestroy(
  { events: plain, finish }: Decision,
  append: (events: readonly VaultEvent[]) => Promise<AppendResult>,
  destroyKeys: () => Promise<unknown> | undefined,
): Promise<AppendResult & Pick<Changed<never, never>, 'events'>> {
  let isSent = false;
  try {
    const events = finish ? await finish() : plain;
    isSent = true;
    const { position, revision } = await append(events);
    return { events, position, revision };
  } catch (error) {
    if (!isSent || isRefusal(error)) await destroyKeys();
    throw error;
  }
}

export interface Execution<State, Command> {
  readonly store: EventStore;
  readonly stream: string;
  readonly decider: Decider<State, Command>;
  /** A function when the command has to be made from the present state, for example to seal a value. */
  readonly command: Command | ((state: State) => Promise<Command>);
  /** Makes the event. Its id and metadata come from the request. */
  readonly event: RequestContext['event'];
  /** For a command that must not be done again after others changed its result. Its events have the ids of the command. */
  readonly attempts?: Attempts;
  /** For aggregates that decide about access. */
  readonly signing?: Signing<State>;
  /** For a command with values that are sealed under new data keys. */
  readonly newKeys?: {
    readonly idsOf: (command: Command) => readonly string[];
    readonly destroy: (keyIds: readonly string[]) => Promise<unknown>;
  };
  /** The first attempt assumes that the stream does not exist. This saves a read. */
  readonly isCreation?: true;
}

const isMade = <State, Command>(
  command: Command | ((state: State) => Promise<Command>),
): command is (state: State) => Promise<Command> => typeof command === 'function';

/** `change` of an aggregate by its decider, unless an earlier attempt of the request stored the events. */
export async function execute<State, Command>(
  execution: Execution<State, Command>,
): Promise<Executed<State>> {
  const { store, stream, decider, command, event, signing, attempts, newKeys } = execution;
  let assumesNew = execution.isCreation ?? false;
  const { before, decided, position } = await change({
    store,
    stream,
    async load() {
      if (!assumesNew) return load(store, stream, decider);
      assumesNew = false;
      return { state: decider.initialState, revision: noRevision };
    },
    async decide({ state, revision }) {
      const stored = await attempts?.stored(store, stream);
      if (stored) return { events: [], stored };
      const made = isMade(command) ? await command(state) : command;
      const facts = decider.decide(state, made);
      const plain = attempts?.events(facts) ?? facts.map((each) => event(each, each.data));
      const events = signing ? await signed(plain, { state, revision }, decider.evolve, signing) : plain;
      return { events, keys: newKeys?.idsOf(made) ?? [], stored: undefined };
    },
    ...(newKeys && { destroyKeys: newKeys.destroy }),
  });
  const { stored } = decided;
  return stored
    ? { position: stored.position, before: before.state, isRepeat: true }
    : { position, before: before.state };
}

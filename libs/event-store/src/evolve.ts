import type { VaultEventType } from '@token-vault/contracts';
import type { RecordedEvent } from './port.ts';

/** Gives the state after an event of the aggregate's stream. */
export type Evolve<State> = (state: State, event: RecordedEvent) => State;

/** The change that each event of an aggregate makes. The compiler refuses a table that lacks a type. */
type Changes<State, Type extends VaultEventType> = {
  readonly [Each in Type]: (state: State, event: RecordedEvent<Each>) => State;
};

/** For events that do not change the state. */
export const unchanged = <State>(state: State): State => state;

/** Events of other types, for example those of a newer release, leave the state as it is. */
export function evolveBy<State, Type extends VaultEventType>(changes: Changes<State, Type>): Evolve<State> {
  const byType = new Map<string, Evolve<State>>();
  for (const type in changes) byType.set(type, forType(type, changes[type]));
  return (state, event) => byType.get(event.type)?.(state, event) ?? state;
}

const isOf = <Type extends VaultEventType>(event: RecordedEvent, type: Type): event is RecordedEvent<Type> =>
  event.type === type;

const forType =
  <State, Type extends VaultEventType>(
    type: Type,
    change: (state: State, event: RecordedEvent<Type>) => State,
  ): Evolve<State> =>
  (state, event) =>
    isOf(event, type) ? change(state, event) : state;

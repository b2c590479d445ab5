import type { VaultEventType } from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';

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
  // eslint-disable-next-line no-restricted-syntax -- The compiler cannot follow that the function found by an event's type takes this event. `Changes` has checked it.
  const byType = new Map(Object.entries(changes)) as unknown as ReadonlyMap<string, Evolve<State>>;
  return (state, event) => byType.get(event.type)?.(state, event) ?? state;
}

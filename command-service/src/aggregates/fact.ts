import type { EventName, NewDataOf, VaultEventType } from '@token-vault/contracts';

/** An event that a decider wants to append: name and data, without id and metadata. */
export type Fact<Type extends VaultEventType = VaultEventType> = Type extends VaultEventType
  ? EventName<Type> & { readonly data: NewDataOf<Type> }
  : never;

/** The compiler checks the data by the name of the event. */
export const fact = <Type extends VaultEventType>(
  { type, version }: EventName<Type>,
  data: NewDataOf<Type>,
): Fact<Type> => ({ type, version, data }) as Fact<Type>;

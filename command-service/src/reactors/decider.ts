import {
  ConflictError,
  NotFoundError,
  ReactorCreated,
  ReactorDeleted,
  ReactorSigned,
  ReactorUpdated,
} from '@token-vault/contracts';
import { keyIdOf } from '@token-vault/crypto';
import { isDeepStrictEqual } from 'node:util';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import {
  evolve,
  initialState,
  type ReactorContent,
  type ReactorDetails,
  type ReactorState,
} from './state.ts';

export type ReactorCommand =
  | { readonly kind: 'create'; readonly id: string; readonly content: ReactorContent }
  | { readonly kind: 'update'; readonly content: ReactorContent }
  /** Signs a reactor of a release that did not sign reactors: see `upgrade/`. */
  | { readonly kind: 'sign' }
  | { readonly kind: 'delete' };

/** @throws NotFoundError */
export function requireActive(state: ReactorState): ReactorDetails {
  if (state.kind !== 'active') throw new NotFoundError('The reactor');
  return state.details;
}

const dataOf = (id: string, { name, code, configuration, applicationId }: ReactorContent) => ({
  reactor_id: id,
  name,
  code,
  configuration,
  ...(applicationId === undefined ? {} : { application_id: applicationId }),
});

function decide(state: ReactorState, command: ReactorCommand): readonly Fact[] {
  switch (command.kind) {
    case 'create':
      // The reactor is active: this repeats a create that was interrupted before its answer. Nothing is left to do.
      if (state.kind === 'active') return [];
      if (state.kind === 'deleted') throw new ConflictError('conflict', 'The reactor was made and deleted.');
      return [fact(ReactorCreated, dataOf(command.id, command.content))];
    case 'update': {
      const details = requireActive(state);
      const data = dataOf(details.id, command.content);
      return isDeepStrictEqual(data, dataOf(details.id, details)) ? [] : [fact(ReactorUpdated, data)];
    }
    case 'sign':
      return state.kind === 'active' && state.details.signature === undefined
        ? [fact(ReactorSigned, { reactor_id: state.details.id })]
        : [];
    case 'delete': {
      const { id, configuration } = requireActive(state);
      return [fact(ReactorDeleted, { reactor_id: id, key_ids: [keyIdOf(configuration)] })];
    }
  }
}

export const reactorDecider: Decider<ReactorState, ReactorCommand> = { initialState, evolve, decide };

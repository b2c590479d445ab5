import { checkGrants } from '@token-vault/access';
import {
  ApplicationCreated,
  ApplicationDeleted,
  ApplicationExpired,
  ApplicationKeyRegenerated,
  ApplicationSigned,
  ApplicationUpdated,
  ConflictError,
  NotFoundError,
  ValidationError,
  type AccessRule,
  type ApplicationType,
  type Permission,
} from '@token-vault/contracts';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import { requireHeldBy, type Maker } from './maker.ts';
import { decideKeys, isDue, type KeyCommand } from './keys.ts';
import { evolve, initialState, type ApplicationDetails, type ApplicationState } from './state.ts';

interface Grants {
  readonly permissions: readonly Permission[];
  readonly rules: readonly AccessRule[];
}

export type ApplicationCommand =
  | ({
      readonly kind: 'create';
      readonly id: string;
      readonly name: string;
      readonly type: ApplicationType;
      readonly keyHash: string;
      /** RFC 3339. It must lie after `now`. */
      readonly expiresAt: string | undefined;
      readonly maker: Maker;
      readonly now: Date;
    } & Grants)
  | ({
      readonly kind: 'update';
      readonly name: string;
      readonly maker: Maker;
      readonly now: Date;
    } & Grants)
  | KeyCommand
  /** Signs an application of a release that did not sign: see `upgrade/`. */
  | { readonly kind: 'sign' }
  | { readonly kind: 'delete'; readonly now: Date }
  | { readonly kind: 'expire'; readonly now: Date };

function requireGrants(type: ApplicationType, grants: Grants): void {
  const errors = checkGrants(type, grants);
  if (Object.keys(errors).length > 0) throw new ValidationError(errors);
}

/** An expired application counts as absent, also before the sweeper has ended it. @throws NotFoundError */
export function requireActive(state: ApplicationState, now: Date): ApplicationDetails {
  if (state.kind !== 'active' || isDue(state.details.expiresAt, now))
    throw new NotFoundError('The application');
  return state.details;
}

function create(state: ApplicationState, command: Extract<ApplicationCommand, { kind: 'create' }>): Fact[] {
  // The repeat of a create that was interrupted before its answer. The first key is lost, so the key of the repeat
  // replaces it.
  if (state.kind === 'active') {
    requireHeldBy(command.maker, state.details.type, state.details.permissions);
    return [fact(ApplicationKeyRegenerated, { application_id: command.id, key_hash: command.keyHash })];
  }
  if (state.kind === 'ended') throw new ConflictError('conflict', 'The application was made and has ended.');
  requireGrants(command.type, command);
  requireHeldBy(command.maker, command.type, command.permissions);
  if (isDue(command.expiresAt, command.now)) throw ValidationError.of('expires_at', 'must lie in the future');
  const { id, name, type, keyHash, permissions, rules, expiresAt } = command;
  return [
    fact(ApplicationCreated, {
      application_id: id,
      name,
      type,
      key_hash: keyHash,
      permissions,
      rules,
      ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    }),
  ];
}

function decide(state: ApplicationState, command: ApplicationCommand): readonly Fact[] {
  switch (command.kind) {
    case 'create':
      return create(state, command);
    case 'update': {
      const { id, type, permissions: before } = requireActive(state, command.now);
      requireGrants(type, command);
      const { name, permissions, rules } = command;
      // Otherwise a caller could narrow the application, add a key, and wait until somebody else gives the permissions back.
      requireHeldBy(command.maker, type, [...before, ...permissions]);
      return [fact(ApplicationUpdated, { application_id: id, name, permissions, rules })];
    }
    case 'regenerate-key':
    case 'add-key':
    case 'delete-key': {
      const details = requireActive(state, command.now);
      if (command.kind !== 'delete-key') requireHeldBy(command.maker, details.type, details.permissions);
      return decideKeys(details, command);
    }
    case 'sign':
      return state.kind === 'active' && state.details.signature === undefined
        ? [fact(ApplicationSigned, { application_id: state.details.id })]
        : [];
    case 'delete':
      return [fact(ApplicationDeleted, { application_id: requireActive(state, command.now).id })];
    case 'expire': {
      const isOver = state.kind === 'active' && isDue(state.details.expiresAt, command.now);
      return isOver ? [fact(ApplicationExpired, { application_id: state.details.id })] : [];
    }
  }
}

export const applicationDecider: Decider<ApplicationState, ApplicationCommand> = {
  initialState,
  evolve,
  decide,
};

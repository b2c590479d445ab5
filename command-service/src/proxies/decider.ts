import {
  ConflictError,
  maxProxyKeys,
  NotFoundError,
  ProxyCreated,
  ProxyDeleted,
  ProxyKeyAdded,
  ProxyKeyDeleted,
  ProxyUpdated,
  ValidationError,
} from '@token-vault/contracts';
import { keyIdOf } from '@token-vault/crypto';
import { isDeepStrictEqual } from 'node:util';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import { isDue } from '../applications/keys.ts';
import type { OtherKey } from '../applications/state.ts';
import { evolve, initialState, type ProxyContent, type ProxyDetails, type ProxyState } from './state.ts';

export type ProxyCommand =
  | { readonly kind: 'create'; readonly id: string; readonly content: ProxyContent }
  | { readonly kind: 'update'; readonly content: ProxyContent }
  | { readonly kind: 'add-key'; readonly key: OtherKey; readonly now: Date }
  | { readonly kind: 'delete-key'; readonly keyId: string; readonly now: Date }
  | { readonly kind: 'delete' };

/** @throws NotFoundError */
export function requireActive(state: ProxyState): ProxyDetails {
  if (state.kind !== 'active') throw new NotFoundError('The proxy');
  return state.details;
}

const liveOf = ({ keys }: ProxyDetails, now: Date): readonly OtherKey[] =>
  keys.filter(({ expires_at: expiresAt }) => !isDue(expiresAt, now));

const noApplication = (why: string): ValidationError =>
  ValidationError.of('application', `is required ${why}: such requests have its rights`);

/** A request without a caller of its own has the rights of the proxy's application. @throws ValidationError */
function requireRights({ requireAuth, applicationId }: ProxyContent, keys: readonly OtherKey[]): void {
  if (applicationId !== undefined) return;
  if (!requireAuth) throw noApplication('when require_auth is false');
  if (keys.length > 0) throw noApplication('while the proxy has keys of its own');
}

const dataOf = (id: string, content: ProxyContent) => ({
  proxy_id: id,
  name: content.name,
  destination: content.destination,
  destinations: content.destinations,
  ...(content.requestCode === undefined ? {} : { request_code: content.requestCode }),
  ...(content.responseCode === undefined ? {} : { response_code: content.responseCode }),
  require_auth: content.requireAuth,
  configuration: content.configuration,
  ...(content.applicationId === undefined ? {} : { application_id: content.applicationId }),
});

function addKey(details: ProxyDetails, { key, now }: Extract<ProxyCommand, { kind: 'add-key' }>): Fact[] {
  if (isDue(key.expires_at, now)) throw ValidationError.of('expires_at', 'must lie in the future');
  if (details.applicationId === undefined) throw noApplication('for a key of a proxy');
  // The repeat of a request whose answer was lost: its key replaces the one that the caller never received.
  const keys = [...liveOf(details, now).filter(({ id }) => id !== key.id), key];
  if (keys.length > maxProxyKeys)
    throw new ConflictError('conflict', `A proxy has at most ${maxProxyKeys} live keys.`);
  return [fact(ProxyKeyAdded, { proxy_id: details.id, key_id: key.id, keys })];
}

function deleteKey(
  details: ProxyDetails,
  { keyId, now }: Extract<ProxyCommand, { kind: 'delete-key' }>,
): Fact[] {
  const live = liveOf(details, now);
  const keys = live.filter(({ id }) => id !== keyId);
  if (keys.length === live.length) throw new NotFoundError('The key');
  return [fact(ProxyKeyDeleted, { proxy_id: details.id, key_id: keyId, keys })];
}

function decide(state: ProxyState, command: ProxyCommand): readonly Fact[] {
  switch (command.kind) {
    case 'create':
      // The proxy is active: this repeats a create that was interrupted before its answer. Nothing is left to do.
      if (state.kind === 'active') return [];
      if (state.kind === 'deleted') throw new ConflictError('conflict', 'The proxy was made and deleted.');
      requireRights(command.content, []);
      return [fact(ProxyCreated, dataOf(command.id, command.content))];
    case 'update': {
      const details = requireActive(state);
      requireRights(command.content, details.keys);
      const data = dataOf(details.id, command.content);
      return isDeepStrictEqual(data, dataOf(details.id, details)) ? [] : [fact(ProxyUpdated, data)];
    }
    case 'add-key':
      return addKey(requireActive(state), command);
    case 'delete-key':
      return deleteKey(requireActive(state), command);
    case 'delete': {
      const { id, configuration } = requireActive(state);
      return [fact(ProxyDeleted, { proxy_id: id, key_ids: [keyIdOf(configuration)] })];
    }
  }
}

export const proxyDecider: Decider<ProxyState, ProxyCommand> = { initialState, evolve, decide };

import {
  ApplicationKeyAdded,
  ApplicationKeyDeleted,
  ApplicationKeyRegenerated,
  ConflictError,
  maxApplicationKeys,
  NotFoundError,
  ValidationError,
} from '@token-vault/contracts';
import { equalHashes } from '@token-vault/crypto';
import { fact, type Fact } from '../aggregates/fact.ts';
import type { Maker } from './maker.ts';
import type { ApplicationDetails, OtherKey } from './state.ts';

export type KeyCommand =
  | {
      readonly kind: 'regenerate-key';
      readonly keyId: string;
      readonly keyHash: string;
      /** Seconds for which the main key before lives on. */
      readonly overlap?: number | undefined;
      readonly maker: Maker;
      readonly now: Date;
    }
  | {
      readonly kind: 'add-key';
      readonly keyId: string;
      readonly keyHash: string;
      readonly expiresAt: string | undefined;
      readonly maker: Maker;
      readonly now: Date;
    }
  | { readonly kind: 'delete-key'; readonly keyId: string; readonly now: Date };

export function isDue(expiresAt: string | undefined, now: Date): boolean {
  return expiresAt !== undefined && Date.parse(expiresAt) <= now.getTime();
}

const liveOf = ({ keys }: ApplicationDetails, now: Date): readonly OtherKey[] =>
  keys.filter(({ expires_at: expiresAt }) => !isDue(expiresAt, now));

/** Whether the key of this hash is the main key or another one that has not expired. */
export function hasLiveKey(details: ApplicationDetails, keyHash: string, now: Date): boolean {
  const hashes = [details.keyHash, ...liveOf(details, now).map(({ hash }) => hash)];
  return hashes.some((hash) => hash !== undefined && equalHashes(hash, keyHash));
}

/** The main key as one of the others; undefined when it was deleted. */
function mainKeyOf(details: ApplicationDetails): OtherKey | undefined {
  const { id, keyId, keyHash: hash, keyCreatedAt } = details;
  return hash === undefined ? undefined : { id: keyId ?? id, hash, created_at: keyCreatedAt };
}

function requirePlace(count: number): void {
  if (count > maxApplicationKeys)
    throw new ConflictError('conflict', `An application has at most ${maxApplicationKeys} live keys.`);
}

function regenerate(
  details: ApplicationDetails,
  command: Extract<KeyCommand, { kind: 'regenerate-key' }>,
): Fact[] {
  const { keyId, keyHash, overlap = 0, now } = command;
  const main = mainKeyOf(details);
  const others = liveOf(details, now);
  // The repeat of a request whose answer was lost: the caller never received the key that it made, so that key is deleted.
  const isRepeat = main?.id === keyId;
  const kept =
    main && overlap > 0 && !isRepeat
      ? { ...main, expires_at: new Date(now.getTime() + overlap * 1000).toISOString() }
      : undefined;
  const keys = kept ? [...others, kept] : [...others];
  requirePlace(keys.length + 1);
  return [
    fact(ApplicationKeyRegenerated, {
      application_id: details.id,
      key_hash: keyHash,
      key_id: keyId,
      keys,
      ...(kept && { kept_key_hash: kept.hash }),
    }),
  ];
}

function add(details: ApplicationDetails, command: Extract<KeyCommand, { kind: 'add-key' }>): Fact[] {
  const { keyId, keyHash, expiresAt, now } = command;
  if (isDue(expiresAt, now)) throw ValidationError.of('expires_at', 'must lie in the future');
  // The repeat of a request whose answer was lost: its key replaces the one that the caller never received.
  const others = liveOf(details, now).filter(({ id }) => id !== keyId);
  const key = {
    id: keyId,
    hash: keyHash,
    created_at: now.toISOString(),
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
  };
  const keys = [...others, key];
  requirePlace(keys.length + (details.keyHash === undefined ? 0 : 1));
  return [fact(ApplicationKeyAdded, { application_id: details.id, key_id: keyId, key_hash: keyHash, keys })];
}

function remove(details: ApplicationDetails, { keyId, now }: Extract<KeyCommand, { kind: 'delete-key' }>) {
  const main = mainKeyOf(details);
  const others = liveOf(details, now);
  const wasMain = main?.id === keyId;
  const key = wasMain ? main : others.find(({ id }) => id === keyId);
  if (!key) throw new NotFoundError('The key');
  return [
    fact(ApplicationKeyDeleted, {
      application_id: details.id,
      key_id: keyId,
      key_hash: key.hash,
      was_main: wasMain,
      keys: others.filter(({ id }) => id !== keyId),
    }),
  ];
}

/** The changes to the keys of an existing application. Expired keys are left out of the stored list. */
export function decideKeys(details: ApplicationDetails, command: KeyCommand): readonly Fact[] {
  switch (command.kind) {
    case 'regenerate-key':
      return regenerate(details, command);
    case 'add-key':
      return add(details, command);
    case 'delete-key':
      return remove(details, command);
  }
}

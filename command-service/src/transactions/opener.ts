import { streams } from '@token-vault/contracts';
import { equalHashes } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { load } from '../aggregates/decider.ts';
import { applicationDecider } from '../applications/decider.ts';
import { hasLiveKey, isDue } from '../applications/keys.ts';
import { consoleSessionDecider } from '../console/decider.ts';
import { isOver as isConsoleOver } from '../console/state.ts';
import { sessionDecider } from '../sessions/decider.ts';
import { isOver } from '../sessions/state.ts';
import type { TransactionState } from './state.ts';

type Opener = NonNullable<Extract<TransactionState, { kind: 'open' }>['opener']>;

/** The log of one tenant, at one moment. */
interface Source {
  readonly store: EventStore;
  readonly tenantId: string;
  readonly now: Date;
}

async function hasApplicationKey({ store, tenantId, now }: Source, id: string, keyHash: string | undefined) {
  const { state } = await load(store, streams.application(tenantId, id), applicationDecider);
  if (state.kind !== 'active' || keyHash === undefined) return false;
  return !isDue(state.details.expiresAt, now) && hasLiveKey(state.details, keyHash, now);
}

async function hasSessionKey(source: Source, id: string, keyHash: string): Promise<boolean> {
  const { store, tenantId, now } = source;
  const { state } = await load(store, streams.session(tenantId, id), sessionDecider);
  if (state.kind !== 'authorized' || isOver(state, now) || !equalHashes(state.keyHash, keyHash)) return false;
  const keys = await Promise.all([
    hasApplicationKey(source, state.applicationId, state.openerKeyHash),
    hasApplicationKey(source, state.authorizedBy, state.authorizerKeyHash),
  ]);
  return keys.every(Boolean);
}

async function hasConsoleSecret(source: Source, id: string, secretHash: string): Promise<boolean> {
  const { store, tenantId, now } = source;
  const { state } = await load(store, streams.consoleSession(tenantId, id), consoleSessionDecider);
  if (state.kind !== 'open' || isConsoleOver(state, now) || !equalHashes(state.secretHash, secretHash))
    return false;
  const keys = await Promise.all(
    state.members.map((member) => hasApplicationKey(source, member.application_id, member.key_hash)),
  );
  return keys.some(Boolean);
}

/**
 * Whether the key by which a transaction was opened is no longer valid: its application or session has ended, or has another key. Callers
 * are made out by the same rule from the read models (rules.md §6); this decides from the log, as commands do.
 */
export async function isOpenerGone(source: Source, { actor, keyHash }: Opener): Promise<boolean> {
  if (actor.kind === 'application') return !(await hasApplicationKey(source, actor.id, keyHash));
  if (actor.kind !== 'session') return false;
  const sources = [hasSessionKey, hasConsoleSecret] as const;
  return (await Promise.all(sources.map((has) => has(source, actor.id, keyHash)))).every((has) => !has);
}

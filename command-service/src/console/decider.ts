import {
  ConflictError,
  ConsoleSessionEnded,
  ConsoleSessionExpired,
  ConsoleSessionOpened,
  ConsoleSessionUsed,
  type DataOf,
} from '@token-vault/contracts';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import {
  evolve,
  initialState,
  isOver,
  isSecretOf,
  type ConsoleMember,
  type ConsoleSessionState,
} from './state.ts';

/** A session that is not used for so long ends (docs/reference/console.md). */
const idleMs = 30 * 60 * 1000;
const lifetimeMs = 12 * 60 * 60 * 1000;
/** The shortest time between two records of use. So a session may end this much earlier than `idleMs` after its last use, never later. */
const notedEveryMs = 5 * 60 * 1000;

export type ConsoleSessionCommand =
  | {
      readonly kind: 'open';
      readonly id: string;
      readonly secretHash: string;
      readonly members: readonly ConsoleMember[];
      /** The end of the session whose place this one takes. */
      readonly notAfter: string | undefined;
      readonly now: Date;
    }
  | { readonly kind: 'use'; readonly now: Date }
  | { readonly kind: 'end'; readonly id: string; readonly reason: DataOf<'ConsoleSessionEnded'>['reason'] }
  | {
      readonly kind: 'replace';
      readonly id: string;
      readonly secretHash: string;
      /** The session that takes its keys over; undefined for one of another tenant, which takes none. */
      readonly by: string | undefined;
    }
  | { readonly kind: 'expire'; readonly now: Date };

const earlierOf = (ms: number, moment: string): string =>
  ms < Date.parse(moment) ? new Date(ms).toISOString() : moment;

function open(state: ConsoleSessionState, command: Extract<ConsoleSessionCommand, { kind: 'open' }>): Fact[] {
  if (state.kind !== 'absent')
    throw new ConflictError('conflict', 'Another sign-in with the same cookie took its place. Try again.');
  const { id, secretHash, members, notAfter, now } = command;
  const latest = now.getTime() + lifetimeMs;
  const expiresAt = notAfter === undefined ? new Date(latest).toISOString() : earlierOf(latest, notAfter);
  return [
    fact(ConsoleSessionOpened, {
      session_id: id,
      secret_hash: secretHash,
      members,
      ends_at: earlierOf(now.getTime() + idleMs, expiresAt),
      expires_at: expiresAt,
    }),
  ];
}

function use(state: ConsoleSessionState, now: Date): Fact[] {
  if (state.kind !== 'open' || isOver(state, now)) return [];
  const endsAt = earlierOf(now.getTime() + idleMs, state.expiresAt);
  if (Date.parse(endsAt) < Date.parse(state.endsAt) + notedEveryMs && endsAt !== state.expiresAt) return [];
  if (endsAt === state.endsAt) return [];
  return [fact(ConsoleSessionUsed, { session_id: state.id, ends_at: endsAt })];
}

/** A session that is not open yet is ended too: a sign-in that was overtaken then opens none. */
function end(
  state: ConsoleSessionState,
  { id, reason }: Extract<ConsoleSessionCommand, { kind: 'end' }>,
): Fact[] {
  return state.kind === 'ended' ? [] : [fact(ConsoleSessionEnded, { session_id: id, reason })];
}

/** Only an open session is replaced: so the keys of one session go to one other at most. */
function replace(
  state: ConsoleSessionState,
  { id, secretHash, by }: Extract<ConsoleSessionCommand, { kind: 'replace' }>,
): Fact[] {
  if (state.kind !== 'open' || !isSecretOf(state, secretHash)) return [];
  return [fact(ConsoleSessionEnded, { session_id: id, reason: 'replaced', ...(by && { replaced_by: by }) })];
}

function decide(state: ConsoleSessionState, command: ConsoleSessionCommand): readonly Fact[] {
  switch (command.kind) {
    case 'open':
      return open(state, command);
    case 'use':
      return use(state, command.now);
    case 'end':
      return end(state, command);
    case 'replace':
      return replace(state, command);
    case 'expire':
      return state.kind === 'open' && isOver(state, command.now)
        ? [fact(ConsoleSessionExpired, { session_id: state.id })]
        : [];
  }
}

export const consoleSessionDecider: Decider<ConsoleSessionState, ConsoleSessionCommand> = {
  initialState,
  evolve,
  decide,
};

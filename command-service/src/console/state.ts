import {
  consoleSessionStatement,
  signatureOf,
  type ApplicationType,
  type consoleSessionEvents,
  type TypeIn,
} from '@token-vault/contracts';
import { evolveBy } from '@token-vault/event-store';
import { equalHashes } from '@token-vault/crypto';
import type { Signer } from '../aggregates/signing.ts';

/** An application by whose key the browser signed in, as events and rows have it. */
export interface ConsoleMember {
  readonly application_id: string;
  readonly application_type: ApplicationType;
  /** SHA-256, hex. */
  readonly key_hash: string;
}

interface ConsoleSessionDetails {
  readonly id: string;
  /** SHA-256 (hex) of the secret in the cookie. */
  readonly secretHash: string;
  readonly members: readonly ConsoleMember[];
  readonly createdAt: string;
  /** The end unless it is used before. */
  readonly endsAt: string;
  /** The end in any case. */
  readonly expiresAt: string;
  readonly signature: string | undefined;
}

export type ConsoleSessionState =
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'ended';
      /** Undefined when it has expired: then no session takes its place. */
      readonly secretHash: string | undefined;
      /** The session that took its keys over. */
      readonly replacedBy: string | undefined;
    }
  | ({ readonly kind: 'open' } & ConsoleSessionDetails);

export const initialState: ConsoleSessionState = { kind: 'absent' };

export const evolve = evolveBy<ConsoleSessionState, TypeIn<typeof consoleSessionEvents>>({
  ConsoleSessionOpened: (_before, event) => ({
    kind: 'open',
    id: event.data.session_id,
    secretHash: event.data.secret_hash,
    members: event.data.members,
    createdAt: event.metadata.occurred_at,
    endsAt: event.data.ends_at,
    expiresAt: event.data.expires_at,
    signature: signatureOf(event),
  }),
  ConsoleSessionUsed: (state, event) =>
    state.kind === 'open' ? { ...state, endsAt: event.data.ends_at, signature: signatureOf(event) } : state,
  ConsoleSessionEnded: (before, { data: { replaced_by: replacedBy } }) => ({
    kind: 'ended',
    secretHash: before.kind === 'absent' ? undefined : before.secretHash,
    replacedBy,
  }),
  ConsoleSessionExpired: () => ({ kind: 'ended', secretHash: undefined, replacedBy: undefined }),
});

/** Compares in constant time. */
export const isSecretOf = (state: ConsoleSessionState, secretHash: string): boolean =>
  state.kind !== 'absent' && state.secretHash !== undefined && equalHashes(state.secretHash, secretHash);

export const isOver = ({ endsAt, expiresAt }: ConsoleSessionDetails, now: Date): boolean =>
  Math.min(Date.parse(endsAt), Date.parse(expiresAt)) <= now.getTime();

export const consoleSessionSigner: Signer<ConsoleSessionState> = {
  statementOf: (state) => (state.kind === 'open' ? consoleSessionStatement(state) : undefined),
  signatureOf: (state) => (state.kind === 'open' ? state.signature : undefined),
};

import {
  AlteredRecordError,
  signedEventTypes,
  type Statement,
  type VaultEvent,
} from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import { startPosition, type RecordedEvent } from '@token-vault/event-store';

type Evolve<State> = (state: State, event: RecordedEvent) => State;

/** A stream as it was loaded. */
interface Before<State> {
  readonly state: State;
  readonly revision: number;
}

/** How the states of an aggregate are signed. */
export interface Signer<State> {
  /** Undefined when nothing can be decided by the state. */
  readonly statementOf: (state: State) => Statement | undefined;
  /** Of the last event that says something. */
  readonly signatureOf: (state: State) => string | undefined;
  /** Records of an older release are signed while the vault serves, and believed until then (ADR 20). */
  readonly isSignedLate?: true;
}

/**
 * What is signed anew rests on what was signed before, else a change would make forged events genuine. @throws AlteredRecordError
 */
export function requireSigned<State>(signer: Signer<State>, state: State, hashes: TenantHashes): void {
  const statement = signer.statementOf(state);
  if (!statement) return;
  const signature = signer.signatureOf(state);
  const isGood = signer.isSignedLate
    ? hashes.isBelieved(statement, signature)
    : hashes.isSigned(statement, signature);
  if (!isGood) throw new AlteredRecordError(statement.kind);
}

/**
 * The events with a signature each of what it leaves, for an append after `before`. An append that is expected at another revision
 * is refused, so the revision in the signature is the one that the event gets.
 */
export function signEvents<State>(
  events: readonly VaultEvent[],
  before: Before<State>,
  {
    evolve,
    signer,
    hashes,
  }: {
    readonly evolve: Evolve<State>;
    readonly signer: Signer<State>;
    readonly hashes: TenantHashes;
  },
): VaultEvent[] {
  let { state } = before;
  return events.map((event, index) => {
    const revision = before.revision + 1 + index;
    const recorded: RecordedEvent = { ...event, stream: '', revision, position: startPosition };
    state = evolve(state, recorded);
    const statement = signedEventTypes.has(event.type) ? signer.statementOf(state) : undefined;
    if (!statement) return event;
    return { ...event, data: { ...event.data, signature: hashes.sign(statement, revision) } } as VaultEvent;
  });
}

export interface Signing<State> {
  readonly signer: Signer<State>;
  /** Asked when there is something to sign: a tenant that is gone has no keys. */
  readonly hashes: () => Promise<TenantHashes>;
  /** Only while what an older release wrote is signed for the first time. */
  readonly trustsUnsigned?: true;
}

/** `signEvents`, and what comes before it: nothing for events that say nothing. @throws AlteredRecordError */
export async function signed<State>(
  events: readonly VaultEvent[],
  before: Before<State>,
  evolve: Evolve<State>,
  { signer, hashes: hashesOf, trustsUnsigned }: Signing<State>,
): Promise<readonly VaultEvent[]> {
  if (!events.some(({ type }) => signedEventTypes.has(type))) return events;
  const hashes = await hashesOf();
  if (!trustsUnsigned) requireSigned(signer, before.state, hashes);
  return signEvents(events, before, { evolve, signer, hashes });
}

import {
  AlteredRecordError,
  signedEventTypes,
  type Statement,
  type VaultEvent,
} from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import { startPosition, type Evolve, type RecordedEvent } from '@token-vault/event-store';

/** A stream as it was loaded. */
interface Before<State> {
  readonly state: State;
  readonly revision: number;
}

/** The functions that sign and check the states of an aggregate. */
export interface Signer<State> {
  /** Undefined when no decision depends on the state. */
  readonly statementOf: (state: State) => Statement | undefined;
  /** The signature of the last event that carries one. */
  readonly signatureOf: (state: State) => string | undefined;
  /**
   * Records of an older release are signed while the vault serves. Until then they are accepted without a signature
   * (ADR 20).
   */
  readonly isSignedLate?: true;
}

/**
 * A state is signed again only when its present signature is valid. Otherwise a change would turn forged events into
 * genuine ones. @throws AlteredRecordError
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
 * Adds to each event the signature of the state after it, for an append after `before`. The signature contains the
 * revision. It is the event's real revision, because an append at another revision is refused.
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
  /** Called only when an event needs a signature: a deleted tenant has no keys. */
  readonly hashes: () => Promise<TenantHashes>;
  /**
   * The upgrade signs records of an older release for the first time. Their present state needs no signature if the keys of the tenant, by
   * which the events are signed, say so (`TenantHashes.acceptsUnsigned`).
   */
  readonly isFirst?: boolean;
}

/**
 * Checks the present state, then `signEvents`. Does nothing for events without a statement. @throws
 * AlteredRecordError
 */
export async function signed<State>(
  events: readonly VaultEvent[],
  before: Before<State>,
  evolve: Evolve<State>,
  { signer, hashes: hashesOf, isFirst = false }: Signing<State>,
): Promise<readonly VaultEvent[]> {
  if (!events.some(({ type }) => signedEventTypes.has(type))) return events;
  const hashes = await hashesOf();
  if (!isFirst || !hashes.acceptsUnsigned) requireSigned(signer, before.state, hashes);
  return signEvents(events, before, { evolve, signer, hashes });
}

import { signedEventTypes, streams, TenantSigned } from '@token-vault/contracts';
import { isErased, type KeyRing, type TenantHashes } from '@token-vault/crypto';
import {
  comparePositions,
  noRevision,
  type EventStore,
  type RecordedEvent,
  type StoredEvent,
} from '@token-vault/event-store';
import { creations, signedKinds, tenantKind, type SignedKind } from './folds.ts';
import { canJudge, isGenuine, textOf } from './genuine.ts';
import { beginningOf, decoded, Histories, learn, type History, type Vouched } from './histories.ts';
import { OldOpenings } from './old-openings.ts';

export interface SignatureSources {
  readonly store: Pick<EventStore, 'readStoredStream'>;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
}

/** An event of a signed type that the readers refuse, and why. */
export interface FalseSignature {
  readonly event: StoredEvent;
  readonly problem: string;
}

/** A stored event of a signed type, and what is needed to check it. */
interface Signed {
  readonly stored: StoredEvent;
  readonly event: RecordedEvent;
  readonly kind: SignedKind;
  readonly hashes: TenantHashes;
}

/** Streams that are read at the same time. */
const atOnce = 16;
const endOfPositions = 2n ** 64n;

class SignatureCheck {
  readonly #sources: SignatureSources;
  readonly #histories: Histories;
  readonly #oldOpenings: OldOpenings;
  /** By tenant: up to this position, an older release wrote events without signatures. */
  readonly #unsignedUntil = new Map<string, bigint>();

  constructor(sources: SignatureSources) {
    this.#sources = sources;
    this.#histories = new Histories(sources.store);
    this.#oldOpenings = new OldOpenings(sources.store);
  }

  /** Undefined when the tenant was deleted: nothing can be said then. */
  async #hashesOf(tenantId: string): Promise<TenantHashes | undefined> {
    try {
      return await this.#sources.keyRing.hashes(tenantId);
    } catch (error) {
      if (isErased(error)) return undefined;
      throw error;
    }
  }

  async check(events: readonly StoredEvent[]): Promise<FalseSignature[]> {
    const found: FalseSignature[] = [];
    const byTenant = new Map<string, TenantHashes | undefined>();
    const byStream = new Map<string, Signed[]>();
    for (const stored of events) {
      const kind = signedEventTypes.has(stored.type) ? signedKinds.get(stored.type) : undefined;
      if (!kind) continue;
      const event = decoded(stored);
      if (!event) {
        found.push({ event: stored, problem: 'cannot be read by this release' });
        continue;
      }
      const { tenant_id: tenantId } = event.metadata;
      if (!byTenant.has(tenantId)) byTenant.set(tenantId, await this.#hashesOf(tenantId));
      const hashes = byTenant.get(tenantId);
      if (!hashes || isGenuine(event, hashes, kind.begin())) continue;
      const others = byStream.get(stored.stream) ?? [];
      others.push({ stored, event, kind, hashes });
      byStream.set(stored.stream, others);
    }
    found.push(...(await this.#checkStreams([...byStream.values()])));
    return found.toSorted((one, other) => comparePositions(one.event.position, other.event.position));
  }

  async #checkStreams(signed: readonly (readonly Signed[])[]): Promise<FalseSignature[]> {
    const found: FalseSignature[] = [];
    for (let at = 0; at < signed.length; at += atOnce) {
      const some = signed.slice(at, at + atOnce).map((each) => this.#checkStream(each));
      found.push(...(await Promise.all(some)).flat());
    }
    return found;
  }

  async #checkStream(signed: readonly Signed[]): Promise<FalseSignature[]> {
    const found: FalseSignature[] = [];
    for (const each of signed) {
      const history = await this.#histories.before(each.stored, each.kind);
      const problem = await this.#problemOf(each, history);
      if (problem !== undefined) found.push({ event: each.stored, problem });
      learn(history, each.event, each.stored.revision);
    }
    return found;
  }

  async #problemOf(signed: Signed, history: History): Promise<string | undefined> {
    if (isGenuine(signed.event, signed.hashes, history.fold)) return undefined;
    if (textOf(signed.event) !== undefined)
      return canJudge(signed.event, history.fold) ? 'has a signature that the vault did not make' : undefined;
    return (await this.#isOfOlderRelease(signed, history)) ? undefined : 'is not signed';
  }

  /** Whether the readers believe the event without a signature, or believed it until a later change of its entity was signed. */
  async #isOfOlderRelease(signed: Signed, history: History): Promise<boolean> {
    const { stored, kind, hashes } = signed;
    if (kind.since === 'the start') return false;
    if (kind.since === 'late' && hashes.acceptsUnsigned) return true;
    if (history.hasSignature) return false;
    if (BigInt(stored.position) <= (await this.#lastUnsigned(signed))) return true;
    const { from, before } = (history.vouched ??= await this.#vouched(signed, history));
    if (from <= stored.revision && stored.revision < before) return true;
    return this.#oldOpenings.has(stored, signed.event);
  }

  /** The place of the event by which the upgrade signed the tenant. A process of the older release may have written events since. */
  async #lastUnsigned({ event, hashes }: Signed): Promise<bigint> {
    const { tenant_id: tenantId } = event.metadata;
    const known = this.#unsignedUntil.get(tenantId);
    if (known !== undefined) return known;
    const history = beginningOf(tenantKind);
    let until = hashes.acceptsUnsigned ? endOfPositions : 0n;
    for await (const stored of this.#sources.store.readStoredStream(streams.tenant(tenantId))) {
      const each = decoded(stored);
      if (each && isGenuine(each, hashes, history.fold)) {
        until = each.type === TenantSigned.type ? BigInt(stored.position) : 0n;
        break;
      }
      learn(history, each, stored.revision);
    }
    this.#unsignedUntil.set(tenantId, until);
    return until;
  }

  /**
   * A signature vouches for the state that it goes on from, which the vault believed when it signed. That of a creation says nothing of what
   * was before: the vault found the id free, and planted events may not have hindered it.
   */
  async #vouched(
    { stored: { stream, revision }, event, hashes }: Signed,
    { fold, next }: History,
  ): Promise<Vouched> {
    const later: History = { fold: fold.copy(), next, hasSignature: false };
    let from = creations.has(event.type) ? revision : 0;
    learn(later, event, revision);
    for await (const stored of this.#sources.store.readStoredStream(stream, { from: revision + 1 })) {
      const each = decoded(stored);
      if (each && creations.has(each.type)) from = stored.revision;
      if (each && isGenuine(each, hashes, later.fold)) return { from, before: stored.revision };
      learn(later, each, stored.revision);
    }
    return { from, before: noRevision };
  }
}

/**
 * Checks the signatures of events as the vault does before it decides by them, for one verification of a log. Whether a record without a
 * signature is believed, is said by the keys of its tenant (ADR 20).
 */
export function createSignatureCheck(
  sources: SignatureSources,
): (events: readonly StoredEvent[]) => Promise<FalseSignature[]> {
  const check = new SignatureCheck(sources);
  return (events) => check.check(events);
}

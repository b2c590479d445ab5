import { streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore, GroupMember } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { Attempts } from '../aggregates/attempts.ts';
import { change, type Changed } from '../aggregates/decider.ts';
import type { Fact } from '../aggregates/fact.ts';
import type { TokenDependencies } from './dependencies.ts';
import { eventsOf } from './enlistment.ts';
import { readTokenHistory, type HistorySource, type TokenHistory } from './history.ts';
import { signTokenEvents } from './signed.ts';

/** The token that an attempt decides on. */
export interface TokenBefore extends Pick<TokenHistory, 'state' | 'revision' | 'base'> {
  readonly tokenId: string;
  /** The request that changes the token. */
  readonly context: RequestContext;
}

export interface TokenDecision {
  readonly facts: readonly Fact[];
  /** As in `Decision`. */
  readonly keys?: readonly string[];
  readonly member?: GroupMember | undefined;
  /** Runs before the append. When it fails, nothing is appended. */
  readonly prepare?: () => Promise<void>;
}

interface TokenChange<Before extends TokenBefore, Decided extends TokenDecision> {
  readonly tenantId: string;
  readonly load: () => Promise<Before>;
  readonly decide: (before: Before) => Decided | Promise<Decided>;
  readonly attempts?: Attempts;
}

/** The token as `reader` sees it: with the writes of the reader's own transaction. */
export async function loadToken(
  source: HistorySource,
  tokenId: string,
  context: RequestContext,
  reader?: RequestContext,
): Promise<TokenBefore & TokenHistory> {
  const history = await readTokenHistory(source, context.principal.tenant.id, tokenId, reader);
  return { tokenId, context, ...history };
}

/** `change` of a token: its state depends on the outcomes of transactions, and its events are signed. */
export function changeToken<Before extends TokenBefore, Decided extends TokenDecision>(
  {
    store,
    keyRing,
  }: { readonly store: EventStore; readonly keyRing: Pick<KeyRing, 'hashes' | 'destroyKeys'> },
  { tenantId, load, decide, attempts }: TokenChange<Before, Decided>,
): Promise<Changed<Before, Decided>> {
  return change({
    store,
    stream: ({ tokenId }) => streams.token(tenantId, tokenId),
    destroyKeys: (keyIds) => keyRing.destroyKeys(tenantId, keyIds),
    load,
    async decide(before) {
      const decided = await decide(before);
      const events = eventsOf(before.context, decided.facts, before, attempts);
      const finish = async () => {
        const signed = await signTokenEvents(keyRing, tenantId, events, before);
        await decided.prepare?.();
        return signed;
      };
      return { ...decided, events, finish };
    },
  });
}

interface TokenWrite extends Omit<TokenDecision, 'prepare'> {
  /** Claims the fingerprint of the token. */
  readonly claim?: (() => Promise<void>) | undefined;
  /** When the committed token expires; undefined after an earlier write of the same transaction. */
  readonly expiresAt?: string | undefined;
}

/** `changeToken` for a request: the write takes part in the transaction of the request. */
export async function writeToken<Before extends TokenBefore, Decided extends TokenWrite>(
  dependencies: Pick<TokenDependencies, 'enlistment' | 'keyRing' | 'store'>,
  { write, ...given }: TokenChange<Before, Decided> & { readonly write: 'create' | 'update' | 'delete' },
): Promise<Changed<Before, Decided>> {
  const { enlistment } = dependencies;
  const changed = await changeToken(dependencies, {
    ...given,
    async decide(before) {
      const decided = await given.decide(before);
      const { facts, keys: newKeyIds = [], expiresAt, claim } = decided;
      const { context, tokenId, revision } = before;
      const prepare = async () => {
        await enlistment.begin(context, { tokenId, write, revision, expiresAt, newKeyIds, facts });
        await claim?.();
      };
      return { ...decided, prepare };
    },
  });
  const { before, decided, position } = changed;
  if (position !== undefined) await enlistment.confirm(before.context, decided.keys ?? [], position);
  return changed;
}

import { streams } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import { readTokenHistory, type HistorySource, type TokenHistory } from './history.ts';

/** A request may wait for another server for minutes. Larger histories are read again. */
const mostKeptCharacters = 64 * 1024;

const charactersOf = ({ state }: TokenHistory): number =>
  state.kind === 'present' ? state.details.content.data.length + (state.details.content.cvc?.length ?? 0) : 0;

interface KeptOfRequest {
  readonly histories: Map<string, TokenHistory>;
  characters: number;
}

async function hasEventAfter(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  revision: number,
): Promise<boolean> {
  for await (const _ of store.readStream(stream, { from: revision + 1, maxCount: 1 })) return true;
  return false;
}

/** The present history of a token without the changes of open transactions. */
export type ReadHistory = (tokenId: string, context: RequestContext) => Promise<TokenHistory>;

/**
 * A request decides about the same tokens several times. The history that it read before is its present one while the stream has no newer event,
 * unless it depends on a transaction that was open.
 */
export function keepHistories(source: Omit<HistorySource, 'newest'>): ReadHistory {
  const requests = new WeakMap<object, KeptOfRequest>();

  async function look(kept: KeptOfRequest, tenantId: string, tokenId: string): Promise<TokenHistory> {
    const { histories } = kept;
    const before = histories.get(tokenId);
    const stream = streams.token(tenantId, tokenId);
    if (before && !(await hasEventAfter(source.store, stream, before.revision))) return before;
    const history = await readTokenHistory(source, tenantId, tokenId);
    const replaced = histories.get(tokenId);
    if (replaced && histories.delete(tokenId)) kept.characters -= charactersOf(replaced);
    const characters = charactersOf(history);
    if (history.isPending || kept.characters + characters > mostKeptCharacters) return history;
    histories.set(tokenId, history);
    kept.characters += characters;
    return history;
  }

  return (tokenId, { identity, principal: { tenant } }) => {
    const kept: KeptOfRequest = requests.get(identity) ?? { histories: new Map(), characters: 0 };
    requests.set(identity, kept);
    return look(kept, tenant.id, tokenId);
  };
}

import { DomainError, streams } from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing, type SealedValue } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';

/** A reactor as it was at one revision. */
export interface ReactorContent {
  readonly code: string;
  readonly configuration: SealedValue;
  readonly applicationId: string | undefined;
}

const cacheSize = 500;

/** Reads reactors at revisions: what is there never changes, so it is read once. */
export function createReactorContents(store: Pick<EventStore, 'readStream'>) {
  const known = new Map<string, ReactorContent>();

  return async (tenantId: string, reactorId: string, revision: number): Promise<ReactorContent> => {
    const stream = streams.reactor(tenantId, reactorId);
    const key = `${stream} ${revision}`;
    const cached = known.get(key);
    if (cached) return cached;
    for await (const event of store.readStream(stream, { from: revision })) {
      // Each event of a reactor but the last holds all of it.
      if (event.type !== 'ReactorCreated' && event.type !== 'ReactorUpdated') break;
      const { code, configuration, application_id: applicationId } = event.data;
      const content = { code, configuration: configuration as SealedValue, applicationId };
      if (known.size >= cacheSize) known.clear();
      known.set(key, content);
      return content;
    }
    throw new Error('a reactor that was invoked is not in the log');
  };
}
export type ReactorContents = ReturnType<typeof createReactorContents>;

/** At the place where command-service sealed it. @throws DomainError `not_found` when the reactor was deleted meanwhile */
export async function openConfiguration(
  keyRing: Pick<KeyRing, 'open'>,
  tenantId: string,
  reactorId: string,
  sealed: SealedValue,
): Promise<Readonly<Record<string, string>>> {
  try {
    const place = { tenantId, entity: `reactor:${reactorId}`, field: 'configuration' };
    return (await keyRing.open<Record<string, string>>(place, sealed)).expose();
  } catch (error) {
    if (error instanceof KeyDestroyedError)
      throw new DomainError('not_found', 'The reactor was deleted before it could run.');
    throw error;
  }
}

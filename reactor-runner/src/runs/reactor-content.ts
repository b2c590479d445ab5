import {
  AlteredRecordError,
  DomainError,
  reactorStatement,
  signatureOf,
  streams,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing, type SealedValue } from '@token-vault/crypto';
import { readEntity, type EventStore, type RecordedEvent } from '@token-vault/event-store';

/** The content of a reactor at one revision. */
export interface ReactorContent {
  readonly code: string;
  readonly configuration: SealedValue;
  readonly applicationId: string | undefined;
}

const cacheSize = 500;

type ContentEvent = RecordedEvent<'ReactorCreated' | 'ReactorUpdated'>;

const holdsContent = (event: RecordedEvent): event is ContentEvent =>
  event.type === 'ReactorCreated' || event.type === 'ReactorUpdated';

/** The content at that revision and its signature, which is in the same event or in the next one, by an upgrade. */
async function readContent(store: Pick<EventStore, 'readStream'>, stream: string, revision: number) {
  let found: { readonly event: ContentEvent; readonly signature: string | undefined } | undefined;
  for await (const event of readEntity(store, stream, { from: Math.max(0, revision - 1), maxCount: 3 })) {
    if (event.revision <= revision && holdsContent(event)) found = { event, signature: signatureOf(event) };
    else if (event.type === 'ReactorSigned' && event.revision - 1 === found?.event.revision)
      found = { event: found.event, signature: signatureOf(event) };
  }
  if (found) return found;
  throw new Error('a reactor that was invoked is not in the log');
}

/**
 * Reads reactors at revisions. Each signature is checked, because the code is run and given plaintext (ADR 20). The
 * content at a revision never changes, so it is read once. @throws AlteredRecordError
 */
export function createReactorContents(
  store: Pick<EventStore, 'readStream'>,
  keyRing: Pick<KeyRing, 'hashes'>,
) {
  const known = new Map<string, ReactorContent>();

  return async (tenantId: string, reactorId: string, revision: number): Promise<ReactorContent> => {
    const stream = streams.reactor(tenantId, reactorId);
    const key = `${stream} ${revision}`;
    const cached = known.get(key);
    if (cached) return cached;
    const [{ event, signature }, hashes] = await Promise.all([
      readContent(store, stream, revision),
      keyRing.hashes(tenantId),
    ]);
    const { name, code, configuration, application_id: applicationId } = event.data;
    const statement = reactorStatement({ id: reactorId, name, code, configuration, applicationId });
    if (!hashes.isBelieved(statement, signature)) throw new AlteredRecordError('reactor');
    const content = { code, configuration, applicationId };
    if (known.size >= cacheSize) known.clear();
    known.set(key, content);
    return content;
  };
}
export type ReactorContents = ReturnType<typeof createReactorContents>;

/**
 * Opened under the place (AAD) with which command-service sealed it. @throws DomainError `not_found` when the reactor
 * was deleted meanwhile
 */
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

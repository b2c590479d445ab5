import { comparePositions, parsePosition, startPosition, type EventStore } from '@token-vault/event-store';
import { BackupError, type Manifest } from './format.ts';

/**
 * The identity of a log in another server, by the port of the event store. The position is read first, so that a snapshot of the key ring
 * that begins later has the keys of all events up to it.
 * @throws BackupError when the log is empty
 */
export async function identityOf(store: EventStore): Promise<Manifest['log']> {
  const position = await store.head();
  for await (const [first] of store.readStored(startPosition)) if (first) return { id: first.id, position };
  throw new BackupError(
    'the log in EventStoreDB is empty: it is copied and restored by the tools of the server',
  );
}

/**
 * Compares the log that the server has now with the backup. An older log is right, because the key ring has its keys.
 * @throws BackupError for the log of another vault, and, unless `isNewerAllowed`, for a log that is newer than the keys
 */
export function requireSameLog(
  found: Manifest['log'],
  { log: wanted }: Pick<Manifest, 'log'>,
  isNewerAllowed: boolean,
): void {
  if (found.id !== wanted.id)
    throw new BackupError(
      'the log in EventStoreDB is that of another vault, or EVENTSTOREDB_STREAM_PREFIX is that of another one',
    );
  const isNewer = comparePositions(parsePosition(found.position), parsePosition(wanted.position)) > 0;
  if (isNewer && !isNewerAllowed)
    throw new BackupError(
      `the log in EventStoreDB (position ${found.position}) is newer than the key ring (${wanted.position}): the data that was stored in between cannot be opened. Use a newer key ring; if there is none, --despite-newer-log ends those tokens for good`,
    );
}

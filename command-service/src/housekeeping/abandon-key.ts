import { KeysAbandoned, TokenKeysAbandoned } from '@token-vault/contracts';
import { noRevision, RevisionConflictError, type EventStore } from '@token-vault/event-store';
import type { Clock } from '@token-vault/operations';
import { expectedAt } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { streamOfKeys } from './entity.ts';
import type { UnneededKey } from './key-sweep-record.ts';

const abandonments = new Set<string>([KeysAbandoned.type, TokenKeysAbandoned.type]);

/** A stream that changes more often than this while a key is looked at is left to the next pass. */
const attempts = 5;

type Log = Pick<EventStore, 'append' | 'readStoredStream'>;

/**
 * Whether an event of the stream may need the key, and whether the key was abandoned before. An event that is missing from the stream, for
 * the server has truncated it, may need the key, too.
 */
async function readStream(store: Log, stream: string, keyId: string) {
  const found = { isNamed: false, isAbandoned: false, revision: noRevision };
  let next = 0;
  for await (const { type, data, revision } of store.readStoredStream(stream)) {
    found.revision = revision;
    if (revision !== next) found.isNamed = true;
    next = revision + 1;
    if (!data.includes(keyId)) continue;
    if (abandonments.has(type)) found.isAbandoned = true;
    else found.isNamed = true;
  }
  return found;
}

/**
 * False when the log needs the key. True when it never will, and says so: any append that was decided before and would bring the key meets a
 * conflict.
 */
export async function abandonKey(store: Log, clock: Clock, key: UnneededKey): Promise<boolean> {
  const { id, tenantId, entity } = key;
  const stream = streamOfKeys(tenantId, entity);
  if (stream === undefined) return false;
  for (let attempt = 1; ; attempt += 1) {
    const { isNamed, isAbandoned, revision } = await readStream(store, stream, id);
    if (isNamed || isAbandoned) return !isNamed;
    const context = systemContext(tenantId, 'key-sweep', clock);
    const event = context.event(KeysAbandoned, { entity, abandoned_key_ids: [id] });
    try {
      const stored = await store.append(stream, [event], expectedAt(revision));
      // Else the server has forgotten events of the stream, which may need the key.
      return stored.revision === revision + 1;
    } catch (error) {
      if (!(error instanceof RevisionConflictError) || attempt === attempts) throw error;
    }
  }
}

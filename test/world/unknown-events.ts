import { newId } from '@token-vault/contracts';
import type { Database } from './database.ts';

/** Appends an event of a newer release. */
export async function appendUnknownEvent(database: Pick<Database, 'query'>): Promise<void> {
  await database.query(
    `select event_store.append_events(array['newer-' || $1], array[-1], array[1], array[1], array[$1::uuid],
       array['MadeByANewerRelease'], array[1], array['{}'::json],
       array[(select metadata from event_store.event order by position limit 1)])`,
    [newId()],
  );
}

/** Makes an event of this release of it, which changes nothing. The log refuses changes by triggers, which a superuser can leave out. */
export async function takeUnknownEventsBack(database: Pick<Database, 'query'>): Promise<void> {
  await database.query('set session_replication_role = replica');
  await database.query(
    `update event_store.event set type = 'KeysAbandoned', data = '{"entity":"none","abandoned_key_ids":[]}'
      where type = 'MadeByANewerRelease'`,
  );
  await database.query('reset session_replication_role');
}

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

/** As if no such event had been appended. The log refuses changes by triggers, which a superuser can leave out. */
export async function takeUnknownEventsBack(database: Pick<Database, 'query'>): Promise<void> {
  await database.query('set session_replication_role = replica');
  await database.query(`delete from event_store.event where type = 'MadeByANewerRelease'`);
  await database.query('reset session_replication_role');
}

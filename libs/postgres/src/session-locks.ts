import type pg from 'pg';

/** A lock that belongs to one database session: it is free when the session ends, for whatever reason. */
export interface SessionLock {
  /** Separates the locks of one purpose from all others in the database. Every release uses the same. */
  readonly lockClass: number;
  readonly name: string;
}

/** How often a session that holds a lock shows that its process lives. */
const heartbeatMs = 1_000;
/** A holder without a heartbeat for this time belongs to a process that is frozen, or on a machine that is cut off. */
const frozenMs = 3_000;

/**
 * Postgres stores when each session last changed its state, so a heartbeat needs no table. A session that is running a statement counts as
 * alive, unless Postgres waits for its client. The second key of the lock is a signed number in `hashtext` and an oid in `pg_locks`.
 */
const endFrozenHolder = `
select pg_terminate_backend(activity.pid)
from pg_locks held join pg_stat_activity activity on activity.pid = held.pid
where held.locktype = 'advisory' and held.granted
  and held.database = (select oid from pg_database where datname = current_database())
  and held.classid = $1::int::bigint::oid and held.objid = (hashtext($2)::bigint & 4294967295)::oid and held.objsubid = 2
  and (activity.state like 'idle%' or activity.wait_event_type = 'Client')
  and activity.state_change < clock_timestamp() - $3::int * interval '1 millisecond'`;

/**
 * Tries to take the lock for the session of `client`, and does not wait for it: a session that waits inside Postgres would hold back vacuum
 * as long as the holder lives. When the holder is frozen, its session is ended, and a later attempt gets the lock. When the old holder
 * wakes, its statements fail, because its session has ended. Its other work (a request, an append) must be safe while there are two holders.
 * From the first lock that it gets, the session sends heartbeats until it ends. @throws the error of a lost connection
 */
export async function tryHold(client: pg.ClientBase, { lockClass, name }: SessionLock): Promise<boolean> {
  const { rows } = await client.query<{ locked: boolean }>(
    'select pg_try_advisory_lock($1, hashtext($2)) as locked',
    [lockClass, name],
  );
  if (rows[0]?.locked === true) {
    sendHeartbeats(client);
    return true;
  }
  await client.query(endFrozenHolder, [lockClass, name, frozenMs]);
  return false;
}

/** The sessions that send heartbeats. One may hold many locks. */
const beating = new WeakSet<pg.ClientBase>();

function sendHeartbeats(client: pg.ClientBase): void {
  if (beating.has(client)) return;
  beating.add(client);
  let isAsking = false;
  const timer = setInterval(() => {
    // The statement before it is under way: while Postgres works on that, the session counts as alive.
    if (isAsking) return;
    isAsking = true;
    client
      .query('select 1')
      // It fails only when the session fails. The next statement reports that.
      .catch(() => undefined)
      .finally(() => (isAsking = false));
  }, heartbeatMs).unref();
  client.once('end', () => clearInterval(timer));
}

import type { Pool } from 'pg';
import { RotationInProgressError } from '../errors.ts';

/**
 * Keeps a second rotation out while `work` runs. The lock belongs to a connection of its own, so that it is free
 * again when this process dies.
 * @throws RotationInProgressError when another one is under way.
 */
export async function withRotationLock<T>(pool: Pool, name: string, work: () => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    const { rows } = await client.query<{ locked: boolean }>(
      `select pg_try_advisory_lock(hashtext('key_ring.rotation'), hashtext($1)) as locked`,
      [name],
    );
    if (rows[0]?.locked !== true) throw new RotationInProgressError(`${name} is being rotated already`);
    return await work();
  } finally {
    // Closing the connection is the one way to give the lock back that cannot fail.
    client.release(true);
  }
}

import { lockKeys, whileLocked } from '@token-vault/postgres';
import type { Pool } from 'pg';
import { RotationInProgressError } from '../errors.ts';

/** Postgres frees the lock of a rotation that was interrupted when it finds its connection ended: on a busy machine, moments later. */
const waitMs = 3_000;

/**
 * Runs `work` while no other rotation of this name runs. The lock belongs to a connection of its own, so it is released when this process
 * dies.
 * @throws RotationInProgressError when another rotation is running.
 */
export function withRotationLock<T>(pool: Pool, name: string, work: () => Promise<T>): Promise<T> {
  const isHeld = (): never => {
    throw new RotationInProgressError(`${name} is being rotated already`);
  };
  return whileLocked(pool, lockKeys.rotation(name), work, { waitMs, isHeld });
}

import type { Pool } from 'pg';

/**
 * Sees to it that a lost connection of `pool` does not end the process, as an error event does that nobody hears. An idle one is
 * replaced at the next use; of one that is lent out, whoever has it learns by the next query.
 */
export function ignoreIdleConnectionErrors(pool: Pool, onIdleLost: () => void = () => {}): void {
  pool.on('error', onIdleLost);
  pool.on('connect', (client) => client.on('error', () => {}));
}

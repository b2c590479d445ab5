import type { Pool } from 'pg';

/**
 * Listens to the pool's error event, because an error event without a listener ends the process. A lost idle
 * connection is replaced at the next use. When a connection in use is lost, its next query rejects.
 */
export function ignoreIdleConnectionErrors(pool: Pool, onIdleLost: () => void = () => {}): void {
  pool.on('error', onIdleLost);
  pool.on('connect', (client) => client.on('error', () => {}));
}

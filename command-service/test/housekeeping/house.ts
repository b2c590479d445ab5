import { streams } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { projections, startProjectors } from '@token-vault/projectors';
import { createProjectionProgress } from '@token-vault/read-models';
import { silentLogger, type Logger } from '@token-vault/observability';
import { waitUntil } from '@token-vault/test-support';
import {
  housekeepingMigrations,
  startHousekeeping,
  type Housekeeping,
  type HousekeepingOptions,
} from '../../src/index.ts';
import { openVault, type TestVault, type VaultOptions } from '../tokens/vault.ts';

/** A vault with read models and any number of housekeepers. */
export interface House {
  readonly vault: TestVault;
  readonly url: string;
  /** A housekeeper that does not sweep by itself during a test. It is closed with the house. */
  keep(options?: Partial<HousekeepingOptions>): Housekeeping;
  /** Waits until the read models have applied the whole log. */
  settle(): Promise<void>;
  /** Changes the read model of tokens so that it differs from the log. */
  tamper(sql: string, values?: unknown[]): Promise<void>;
  /** The types of the events in a token's stream. */
  typesOf(tokenId: string): Promise<string[]>;
  close(): Promise<void>;
}

export async function openHouse(options?: VaultOptions): Promise<House> {
  const vault = await openVault(options);
  const url = vault.pool.options.connectionString;
  if (url === undefined) throw new Error('the pool has no connection string');
  for (const { sql } of housekeepingMigrations) await vault.pool.query(sql);
  const projectors = startProjectors({ store: vault.log, connectionString: url });
  await waitUntil(async () => (await projectors.status()).length === projections.length, {
    what: 'all projections',
  });
  const progress = await createProjectionProgress({ connectionString: url, logger: silentLogger });
  const kept: Housekeeping[] = [];
  return {
    vault,
    url,
    keep(options = {}) {
      const { log: store, keyRing, pool, clock } = vault;
      const housekeeping = startHousekeeping({
        store,
        keyRing,
        pool,
        clock,
        connectionString: url,
        logger: silentLogger,
        intervalMs: 3_600_000,
        ...options,
      });
      kept.push(housekeeping);
      return housekeeping;
    },
    async settle() {
      if (!(await progress.waitFor(await vault.log.head(), 20_000)))
        throw new Error('a projection stands still');
    },
    async tamper(sql, values = []) {
      const client = await vault.pool.connect();
      try {
        await client.query('set search_path = rm_tokens');
        await client.query(sql, values);
        await client.query('reset search_path');
      } finally {
        client.release();
      }
    },
    async typesOf(tokenId) {
      const events = await vault.events(streams.token(vault.principal.tenant.id, tokenId));
      return events.map(({ type }) => type);
    },
    async close() {
      await Promise.all(kept.map((each) => each.close()));
      await projectors.close();
      await progress.close();
      await vault.close();
    },
  };
}

/** A key ring that destroys nothing, as if the process had died just before. */
export function withoutDestruction(keyRing: KeyRing): KeyRing {
  const nothing = () => Promise.resolve([]);
  return {
    ...keyRing,
    destroyKeys: nothing,
    destroyKeysOfEntity: nothing,
    destroyDue: nothing,
    destroyAllOfTenant: () => Promise.resolve(0),
  };
}

/** The store without its live subscription, so that a housekeeper only sweeps. */
export function withoutTail(store: EventStore): EventStore {
  return {
    append: store.append.bind(store),
    readStream: store.readStream.bind(store),
    consistently: store.consistently.bind(store),
    remembered: store.remembered.bind(store),
    readAll: store.readAll.bind(store),
    readStored: store.readStored.bind(store),
    readStoredBackwards: store.readStoredBackwards.bind(store),
    readStoredStream: store.readStoredStream.bind(store),
    hasDensePositions: store.hasDensePositions,
    head: store.head.bind(store),
    end: store.end.bind(store),
    close: store.close.bind(store),
    async *subscribe(_after, signal) {
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      yield* [];
    },
  };
}

export interface RecordingLogger extends Logger {
  readonly messages: string[];
}
export function recordingLogger(): RecordingLogger {
  const messages: string[] = [];
  const log = (_fields: object, message: string): void => void messages.push(message);
  return { messages, debug: log, info: log, warn: log, error: log };
}

import { randomBytes } from 'node:crypto';
import {
  eventRegistry,
  newEvent,
  newId,
  TenantCreated,
  TenantUpdated,
  type VaultEvent,
} from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, keyRingMigrations, type KeyRing } from '@token-vault/crypto';
import { startPosition, type EventStore, type Position, type StoredEvent } from '@token-vault/event-store';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { createEventStoreSchema, createPostgresEventStore } from '@token-vault/event-store/postgres';
import { silentLogger } from '@token-vault/observability';
import { systemClock } from '@token-vault/operations';
import { startEventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';
import { createTestDatabase, createTestPool } from '@token-vault/test-support';
import type { Pool } from 'pg';
import type { SealerOptions } from '../src/sealer.ts';
import { signerOf } from '../src/signature.ts';
import type { CheckSignatures } from '../src/signatures.ts';

/** A log and a key ring, and functions that change both without the vault. */
export interface AuditLog {
  readonly store: EventStore;
  /** The database of the key ring, which is in Postgres for every kind of log. */
  readonly pool: Pool;
  readonly keyRing: KeyRing;
  readonly sealer: SealerOptions;
  /** Finds nothing: the events of these tests are not signed. */
  readonly checkSignatures: CheckSignatures;
  /** All events of the log as they are stored now. */
  read(): Promise<StoredEvent[]>;
  /** Replaces the log beneath the adapter, as an attacker with the disk but without the root key. */
  rewrite(events: readonly StoredEvent[]): Promise<void>;
  end(): Promise<void>;
}

interface Log {
  readonly store: EventStore;
  rewrite(events: readonly StoredEvent[]): Promise<void>;
  end(): Promise<void>;
}

const registry = eventRegistry;

function openPostgres(url: string, pool: Pool): Log {
  const store = createPostgresEventStore({ registry, connection: { connectionString: url } });
  return {
    store,
    async rewrite(events) {
      const rows = JSON.stringify(events.map((event) => ({ ...event, bytes: event.data.length })));
      await pool.query(`
        begin;
        set local session_replication_role = replica;
        delete from event_store.event;
        insert into event_store.event (position, stream, revision, version, bytes, id, type, data, metadata)
          select position, stream, revision, version, bytes, id, type, data::json, metadata::json
          from json_to_recordset($rows$${rows}$rows$) as e (position bigint, stream text, revision integer,
            version integer, bytes integer, id uuid, type text, data text, metadata text);
        update event_store.stream set revision = newest.revision
          from (select stream, max(revision) as revision from event_store.event group by stream) newest
          where name = newest.stream;
        commit`);
    },
    end: () => store.close(),
  };
}

const prefix = 'vault.';

/** Always the double: nothing rewrites the log of a real server in place. */
async function openEventStoreDb(): Promise<Log> {
  const double = await startEventStoreDbDouble();
  const { connectionString, log } = double;
  const store = createEventStoreDbEventStore({ registry, connectionString });
  const bytes = (text: string) => new TextEncoder().encode(text);
  return {
    store,
    async rewrite(events) {
      const others = log.events.filter(({ stream }) => !stream.startsWith(prefix));
      const own = events.map(({ position, stream, revision, version, id, type, data, metadata }) => ({
        ...{ id, type, revision, contentType: 'application/octet-stream', createdMs: 0 },
        stream: prefix + stream,
        position: Number(position),
        data: bytes(data),
        metadata: bytes(`{"version":${version},${metadata.slice(1)}`),
      }));
      log.rewrite([...others, ...own].toSorted((left, right) => left.position - right.position));
    },
    async end() {
      await store.close();
      await double.close();
    },
  };
}

const template = {
  name: `audit-${keyRingMigrations.length}`,
  fill: async (url: string): Promise<void> => {
    await createEventStoreSchema({ connectionString: url });
    const pool = createTestPool(url);
    for (const { sql } of keyRingMigrations) await pool.query(sql);
    await pool.end();
  },
};

export type LogKind = 'Postgres' | 'EventStoreDB';

/** An empty log, and a key ring that has keys for `tenants`. */
export async function openAuditLog(kind: LogKind, tenants: readonly string[]): Promise<AuditLog> {
  const database = await createTestDatabase({ template });
  const pool = createTestPool(database.url, { max: 5 });
  const log = kind === 'Postgres' ? openPostgres(database.url, pool) : await openEventStoreDb();
  const { store } = log;
  const rootKey = environmentRootKey(randomBytes(32).toString('hex'));
  const keyRing = await createKeyRing({ pool, rootKey, clock: systemClock, durability: 'own' });
  for (const tenantId of tenants) await keyRing.createTenantKeys(tenantId);
  return {
    ...log,
    pool,
    keyRing,
    sealer: { store, keyRing, clock: systemClock, logger: silentLogger },
    checkSignatures: () => Promise.resolve([]),
    async read() {
      const events: StoredEvent[] = [];
      for await (const batch of store.readStored(startPosition)) events.push(...batch);
      return events;
    },
    async end() {
      await log.end();
      await pool.end();
      await database.drop();
    },
  };
}

/** The id and the metadata of a new event of the tenant. */
export const given = (tenantId: string, at = new Date('2030-01-01')) => ({
  id: newId(),
  metadata: {
    tenant_id: tenantId,
    actor: { kind: 'system' as const, id: 'test' },
    trace_id: 't',
    correlation_id: 't',
    occurred_at: at.toISOString(),
  },
});

/** An event that gives the tenant the name. */
export const updateOf = (tenantId: string, name: string, at?: Date): VaultEvent =>
  newEvent(TenantUpdated, { tenant_id: tenantId, name, settings: {} }, given(tenantId, at));

/** The event with which the tenant begins. */
export const creationOf = (tenantId: string): VaultEvent =>
  newEvent(
    TenantCreated,
    { tenant_id: tenantId, name: 'n', plan: 'standard', settings: {} },
    given(tenantId),
  );

/** Of the nth event, from 1. */
export async function positionOf(log: AuditLog, place: number): Promise<Position> {
  return (await log.read())[place - 1]?.position ?? startPosition;
}

/** Gives a checkpoint of the tenant as older releases wrote and signed it. */
export async function olderForm(
  { keyRing }: AuditLog,
  tenantId: string,
): Promise<(event: StoredEvent) => StoredEvent> {
  const signer = await signerOf(keyRing, tenantId);
  return (event) => {
    const { signature: _present, ...data } = JSON.parse(event.data) as Record<string, unknown>;
    const { after, through, count, head, digests } = data;
    const signed = ['token-vault audit checkpoint 1', tenantId, after, through, count, head, digests];
    const signature = signer.sign(JSON.stringify(signed));
    return { ...event, version: 1, data: JSON.stringify({ ...data, signature }) };
  };
}

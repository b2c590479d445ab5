/**
 * Measures a replay in events a second, one projection at a time, including reading and parsing the log.
 *
 * node projectors/bench/replay.ts <connection string of an empty database> [events, 200000 by default] [projection …]
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { eventRegistry, ownStreamOf, type VaultEvent } from '@token-vault/contracts';
import { comparePositions, type Position } from '@token-vault/event-store';
import { createEventStoreSchema, createPostgresEventStore } from '@token-vault/event-store/postgres';
import pg from 'pg';
import { projections, projectorMigrations, startProjectors } from '../src/index.ts';

const [url, count = '200000', ...chosen] = process.argv.slice(2);
if (!url) throw new Error('usage: node replay.ts <connection string> [events] [projection …]');
const connection = { connectionString: url };
await createEventStoreSchema(connection);
const store = createPostgresEventStore({ connection, registry: eventRegistry });
const pool = new pg.Pool(connection);
for (const { sql } of projectorMigrations) await pool.query(sql);

const tenantId = randomUUID();
const metadata = {
  tenant_id: tenantId,
  actor: { kind: 'application' as const, id: randomUUID() },
  trace_id: randomUUID(),
  correlation_id: randomUUID(),
};
const types = ['token', 'card', 'bank'];

/** A projection copies a signature and does not check it. This one has the length of a real one. */
const signature = `m1.0.${'A'.repeat(22)}`;

/** Of every 20 events: 9 creations (one token in three with metadata and indexes), 9 reads, an update, a deletion. */
function seed(index: number): VaultEvent {
  const kind = index % 20;
  const tokenId = `token-${kind < 18 && kind % 2 === 0 ? index : index - (index % 20)}`;
  const token_type = types[index % types.length] as string;
  const content = {
    token_id: tokenId,
    token_type,
    data: `sv1.${randomUUID()}.${'A'.repeat(300)}`,
    containers: ['/pci/high/'],
    mask: { number: '{{ data.number | reveal_last: 4 }}' },
    ...(index % 3 === 0 && {
      metadata: { order: String(index), region: 'eu' },
      search_indexes: ['{{ data }}'],
      index_hashes: [randomUUID()],
    }),
    fingerprint: randomUUID(),
    signature,
  };
  const of = (type: string, data: unknown) =>
    ({
      id: randomUUID(),
      type,
      version: eventRegistry.versionOf(type),
      data,
      metadata: { ...metadata, occurred_at: new Date(1_700_000_000_000 + index * 200).toISOString() },
    }) as VaultEvent;
  if (kind === 18) return of('TokenUpdated', content);
  if (kind === 19) return of('TokenDeleted', { token_id: tokenId, token_type, key_ids: [] });
  if (kind % 2 === 0) return of('TokenCreated', content);
  return of('TokensRead', {
    operation: 'read',
    tokens: [{ token_id: tokenId, token_type, transform: 'mask' }],
  });
}

let head = '0' as Position;
for (let index = 0; index < Number(count); index += 1_000) {
  const events = Array.from({ length: 1_000 }, (_, offset) => seed(index + offset));
  const byStream = Map.groupBy(events, (event) => ownStreamOf(event)?.stream ?? 'bench');
  await Promise.all([...byStream].map(([stream, own]) => store.append(stream, own, 'any')));
  head = await store.head();
}
console.log(`${count} events in the log`);

async function positionOf(name: string): Promise<Position> {
  const sql = 'select position::text as position from projections.checkpoint where name = $1';
  return ((await pool.query<{ position: Position }>(sql, [name])).rows[0]?.position ?? '0') as Position;
}

const logger = { info: console.log, warn: console.log, error: console.log };
for (const projection of projections) {
  if (chosen.length > 0 && !chosen.includes(projection.name)) continue;
  const start = performance.now();
  const cpu = process.cpuUsage();
  const projectors = startProjectors({
    store,
    connectionString: url,
    projections: [projection],
    logger,
  });
  while (comparePositions(await positionOf(projection.name), head) < 0) await delay(20);
  const ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  const memory = Math.round(process.memoryUsage().rss / 2 ** 20);
  console.log(
    `${projection.name}: ${Math.round((Number(count) * 1_000) / ms)} events/s,`,
    `${((user + system) / Number(count)).toFixed(1)} µs of this process's CPU each, ${memory} MB`,
  );
  await projectors.close();
}
await store.close();
await pool.end();

import { randomUUID } from 'node:crypto';
import { eventRegistry } from '@token-vault/contracts';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { projections, startProjectors } from '@token-vault/projectors';
import { createProjectionProgress } from '@token-vault/read-models';
import { silentLogger } from '@token-vault/observability';
import { systemClock } from '@token-vault/operations';
import { createTestDatabase, createTestPool } from '@token-vault/test-support';
import fc from 'fast-check';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCommands, type CommandWorld } from './command-world.ts';
import { ModelledRun, step } from './modelled-run.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let pool: Pool;
let commands: CommandWorld;
const closers: (() => Promise<unknown>)[] = [];
const store = createMemoryEventStore({ registry: eventRegistry });
let progress: Awaited<ReturnType<typeof createProjectionProgress>>;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url, { max: 4 });
  commands = await openCommands(pool, store, systemClock);
  const projectors = startProjectors({ store, connectionString: database.url });
  progress = await createProjectionProgress({ connectionString: database.url, logger: silentLogger });
  closers.push(
    () => progress.close(),
    () => projectors.close(),
    () => pool.end(),
    () => database.drop(),
  );
});
afterAll(async () => {
  for (const close of closers) await close();
});

const names = projections.map(({ name: of }) => of);
const entries = (map: ReadonlyMap<string, unknown>): unknown[] =>
  [...map].sort(([left], [right]) => (left < right ? -1 : 1));

async function readModels(
  tenantId: string,
): Promise<{ tokens: unknown; applications: unknown; log: string[] }> {
  const tokens = await pool.query<{ id: string; type: string; container: string; metadata: string }>(
    'select id, type, container, metadata from rm_tokens.token where tenant_id = $1',
    [tenantId],
  );
  const applications = await pool.query<{ id: string; name: string }>(
    'select id, name from rm_applications.application where tenant_id = $1',
    [tenantId],
  );
  const log = await pool.query<{ line: string }>(
    `select entity_type || ' ' || operation as line from rm_log.entry where tenant_id = $1`,
    [tenantId],
  );
  const byId = tokens.rows.map(({ id, type, container, metadata: json }) => {
    const stored = { type, container, metadata: JSON.parse(json) as Record<string, string> };
    return [id, stored] as const;
  });
  return {
    tokens: entries(new Map(byId)),
    applications: entries(new Map(applications.rows.map((row) => [row.id, row.name]))),
    log: log.rows.map((row) => row.line).sort(),
  };
}

describe('the read models', () => {
  it('equal a plain model after any sequence of commands', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const tenantId = randomUUID();
        await commands.keyRing.createTenantKeys(tenantId);
        const run = new ModelledRun(commands.call, tenantId);
        for (const next of steps) await run.take(next);
        expect(await progress.waitFor(await store.head(), 10_000, names)).toBe(true);
        expect(await readModels(tenantId)).toEqual({
          tokens: entries(run.model.tokens),
          applications: entries(run.model.applications),
          log: run.model.log.sort(),
        });
      }),
      { numRuns: 60 },
    );
  }, 120_000);
});

import { eventRegistry, liveSchema } from '@token-vault/contracts';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { createProjectionAdmin } from '@token-vault/projectors';
import {
  cardToken,
  plainApplication,
  revealingApplication,
  testStack,
  waitUntil,
} from '@token-vault/test-support';
import pg from 'pg';
import { appendUnknownEvent } from '../world/unknown-events.ts';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startVault, type Call, type RunningVault } from './running-vault.ts';

let vault: RunningVault;
let database: pg.Client;
let manager: string;
/** The key of an application that creates and reveals tokens. */
let key: string;
let applicationPath: string;
let tokenPath: string;

beforeEach(async () => {
  vault = await startVault();
  manager = vault.managementKey;
  database = new pg.Client(vault.databaseUrl);
  await database.connect();
  const made = await vault.must(201, {
    method: 'POST',
    path: '/applications',
    key: manager,
    body: revealingApplication(),
  });
  key = String(made.key);
  applicationPath = `/applications/${String(made.id)}`;
  const token = await vault.must(201, { method: 'POST', path: '/tokens', key, body: cardToken() });
  tokenPath = `/tokens/${String(token.id)}`;
});

afterEach(async () => {
  await database.end();
  await vault.stop();
});

const setStatus = (status: string, names: readonly string[]) =>
  database.query('update projections.checkpoint set status = $1 where name = any($2)', [status, names]);

/** By default within the second that rules.md §1 names. */
async function refused(call: Call, timeoutMs = 1_000): Promise<void> {
  const what = `the refusal of ${call.method ?? 'GET'} ${call.path}`;
  await waitUntil(
    async () => {
      const reply = await vault.call(call);
      if (reply.status === 503) expect(reply.headers.get('retry-after')).toMatch(/^\d+$/);
      return reply.status === 503;
    },
    { timeoutMs, what },
  );
}

const create = (): Call => ({ method: 'POST', path: '/tokens', key, body: cardToken() });

describe('a read model of authentication', () => {
  it.each(['applications', 'tenants'])(
    'stops every request while %s is paused, and none afterwards',
    async (name) => {
      await setStatus('paused', [name]);
      await refused({ path: tokenPath, key });
      for (const call of [
        create(),
        { path: tokenPath, key },
        { path: '/tokens', key },
        { path: '/logs', key: manager },
      ])
        await refused(call);
      await refused({ method: 'DELETE', path: applicationPath, key: manager });
      await refused({ path: '/tokens', key: 'key_pvt_nobodyhasthiskey00000000' });
      await setStatus('live', [name]);
      await waitUntil(async () => (await vault.call({ path: tokenPath, key })).status === 200);
      await vault.must(204, { method: 'DELETE', path: applicationPath, key: manager });
      expect((await vault.call({ path: tokenPath, key })).status).toBe(401);
    },
  );
});

describe('a read model of answers', () => {
  it('stops only its answers while it is paused: a write is stored, and shown when it continues', async () => {
    await setStatus('paused', ['tokens']);
    await refused({ path: tokenPath, key });
    await refused({ path: '/tokens', key });
    await refused({ method: 'POST', path: '/tokens/search', key, body: { query: 'type:card' } });
    await refused({ path: '/tenants/self/reports/usage', key: manager });
    await vault.must(200, { path: applicationPath, key: manager });
    const written = await vault.call(create());
    expect([written.status, written.headers.get('svc-consistency')]).toEqual([201, 'pending']);
    await setStatus('live', ['tokens']);
    const path = `/tokens/${String((written.body as { id: string }).id)}`;
    await waitUntil(async () => {
      const { status } = await vault.call({ path, key });
      expect([200, 503]).toContain(status);
      return status === 200;
    });
  });

  it('stops reading the log while that is paused', async () => {
    await setStatus('paused', ['log']);
    await refused({ path: '/logs', key: manager });
    await vault.must(200, { path: tokenPath, key });
  });
});

describe('a read model that cannot be written', () => {
  /** Nothing can be written to the table until the lock is released. */
  async function lock(table: string): Promise<{ readonly release: () => Promise<void> }> {
    const locker = new pg.Client(vault.databaseUrl);
    await locker.connect();
    await locker.query(`begin; lock table ${table} in share row exclusive mode`);
    return { release: () => locker.end() };
  }

  it('stops its answers, or every request if it is one of authentication, when it is 10 s behind, until it continues', async () => {
    const applications = await lock(`${liveSchema('applications')}.application`);
    const tokens = await lock(`${liveSchema('tokens')}.token`);
    const ofToken: Call = { path: tokenPath, key };
    const ofApplication: Call = { path: applicationPath, key: manager };
    const answered = (call: Call) => waitUntil(async () => (await vault.call(call)).status === 200);
    try {
      const creation = { method: 'POST', path: '/applications', key: manager, body: plainApplication() };
      for (const reply of await Promise.all([creation, create()].map((call) => vault.call(call))))
        expect([reply.status, reply.headers.get('svc-consistency')]).toEqual([201, 'pending']);
      for (const call of [ofToken, ofApplication]) await vault.must(200, call);
      // Both writes were stored at least 2 s ago, because they waited so long for the read models.
      await refused(ofApplication, 9_000);
      for (const call of [ofToken, create(), { path: '/logs', key: manager }]) await refused(call);
      await applications.release();
      await answered(ofApplication);
      await refused(ofToken);
      await tokens.release();
      await answered(ofToken);
    } finally {
      await Promise.all([applications.release(), tokens.release()]);
    }
  });
});

it.skipIf(testStack !== 'standalone')('the standalone vault has the metrics of projections too', async () => {
  await setStatus('paused', ['log']);
  const isTold = async () => {
    const { text } = await vault.call({ path: '/metrics' });
    return /^vault_projection_live\{projection="log",[^}]*\} 0$/m.test(text);
  };
  await waitUntil(isTold, { what: 'the metric of a paused projection' });
  const { text } = await vault.call({ path: '/metrics' });
  expect(text).toMatch(/^vault_projection_live\{projection="tokens",[^}]*\} 1$/m);
  expect(text).toMatch(/^vault_projection_lag_positions\{projection="log",[^}]*\} \d+$/m);
  expect(text).toMatch(/^vault_projection_stalled_seconds\{projection="tokens",[^}]*\} [\d.]+$/m);
});

describe('a rebuild beside the live read models', () => {
  it.skipIf(testStack === 'eventstoredb-kafka')('does not stop answers', async () => {
    const connection = { connectionString: vault.databaseUrl };
    const store = createPostgresEventStore({ registry: eventRegistry, connection });
    const admin = createProjectionAdmin({ store, connectionString: vault.databaseUrl });
    let isOver = false;
    const rebuilding = (async () => {
      for (const name of ['applications', 'tenants', 'tokens'])
        expect(await admin.rebuild(name)).toBe('swapped');
    })().finally(() => (isOver = true));
    const statuses = new Set<number>();
    do {
      statuses.add((await vault.call({ path: tokenPath, key })).status);
      statuses.add((await vault.call(create())).status);
    } while (!isOver);
    await rebuilding;
    await store.close();
    expect([...statuses].sort()).toEqual([200, 201]);
  });
});

describe('a write that is under way when a read model of authentication is paused', () => {
  const pause = () => setStatus('paused', ['applications']);
  const goOn = async () => {
    await setStatus('live', ['applications']);
    await waitUntil(async () => (await vault.call({ path: tokenPath, key })).status === 200);
  };

  it('is 502 when a chunk of a batch may be stored, and 503 only when nothing is', async () => {
    const statuses = new Set<number>();
    for (let pauseAfterMs = 0; !statuses.has(502) && pauseAfterMs < 400; pauseAfterMs += 20) {
      const tokens = Array.from({ length: 1_000 }, (_, at) => ({
        ...cardToken(),
        id: `p${pauseAfterMs}-${at}`,
      }));
      const creating = vault.call({ method: 'POST', path: '/tokens/batch', key, body: { tokens } });
      await new Promise((resolve) => setTimeout(resolve, pauseAfterMs));
      await pause();
      const { status } = await creating;
      statuses.add(status);
      await goOn();
      const first = await vault.call({ path: `/tokens/${String(tokens[0]?.id)}`, key });
      if (status === 503) expect(first.status).toBe(404);
    }
    expect([...statuses]).toContain(502);
  });

  it('is 502 when the code of a reactor has run', async () => {
    const code = `module.exports = async (req) => {
      await req.svc.tokens.create({ id: 'made-by-code', type: 'token', data: 'x' });
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      return { raw: 1 };
    };`;
    const body = plainApplication({ permissions: ['token:create', 'token:use'] });
    const runner = await vault.must(201, { method: 'POST', path: '/applications', key: manager, body });
    const reactor = { name: 'r', code, configuration: {}, application: { id: runner.id } };
    const made = await vault.must(201, { method: 'POST', path: '/reactors', key: manager, body: reactor });
    const path = `/reactors/${String(made.id)}/react`;
    const reacting = vault.call({ method: 'POST', path, key: String(runner.key), body: {} });
    await waitUntil(async () => (await vault.call({ path: '/tokens/made-by-code', key })).status === 200);
    await pause();
    const { status, text } = await reacting;
    expect([status, text]).toEqual([502, expect.stringContaining('outcome-unknown')]);
    await goOn();
  });
});

describe('a revocation', () => {
  it.skipIf(testStack === 'eventstoredb-kafka')(
    'is not confirmed when the read models fail at an event of a newer release, and no caller is accepted',
    async () => {
      await appendUnknownEvent(database);
      const reply = await vault.call({ method: 'DELETE', path: applicationPath, key: manager });
      expect(reply.status).toBe(503);
      expect(reply.headers.get('retry-after')).toBe('1');
      expect((await vault.call({ path: '/health/ready' })).status).toBe(503);
      for (const call of [create(), { path: tokenPath, key }, { path: '/tokens', key }]) await refused(call);
      await refused({ method: 'DELETE', path: applicationPath, key: manager });
    },
  );

  it('that could not be confirmed is confirmed by its repeat; a repeat after that finds nothing', async () => {
    // The projection stops in the middle of the request without a notice: a lock keeps it from moving.
    const locker = new pg.Client(vault.databaseUrl);
    await locker.connect();
    const deletion: Call = { method: 'DELETE', path: applicationPath, key: manager };
    try {
      await locker.query(`begin; select from projections.checkpoint where name = 'applications' for update`);
      const reply = await vault.call(deletion);
      expect(reply.status).toBe(503);
      expect(reply.text).toContain('is stored');
      expect(reply.headers.get('retry-after')).toBe('1');
    } finally {
      await locker.end();
    }
    await vault.must(204, deletion);
    expect((await vault.call({ path: tokenPath, key })).status).toBe(401);
    expect((await vault.call(deletion)).status).toBe(404);
  });

  it('ends a slow request that was begun with the old rights', async () => {
    const body = new ReadableStream({
      async pull(controller) {
        if (isBegun) {
          await vault.must(204, { method: 'DELETE', path: applicationPath, key: manager });
          controller.enqueue(text.slice(10));
          controller.close();
        } else controller.enqueue(text.slice(0, 10));
        isBegun = true;
      },
    });
    let isBegun = false;
    const text = new TextEncoder().encode(JSON.stringify(cardToken()));
    const headers = { 'SVC-API-KEY': key, 'Content-Type': 'application/json' };
    const init = { method: 'POST', headers, body, duplex: 'half' } as RequestInit;
    expect((await fetch(`${vault.url}/tokens`, init)).status).toBe(401);
  });

  it('of rights is confirmed too: withdrawn permissions are not accepted any more', async () => {
    const { permissions } = plainApplication({ permissions: ['token:read'] });
    await vault.must(200, {
      method: 'PUT',
      path: applicationPath,
      key: manager,
      body: { name: 'narrow', permissions },
    });
    expect((await vault.call(create())).status).toBe(403);
    const { rows } = await database.query<{ generation: string }>(
      'select generation from projections.access',
    );
    expect(Number(rows[0]?.generation)).toBeGreaterThan(0);
    const revoked = await database.query<{ stream: string }>(
      'select stream from projections.revocation order by generation desc limit 1',
    );
    expect(`/applications/${revoked.rows[0]?.stream.split('.').at(-1)}`).toBe(applicationPath);
  });
});

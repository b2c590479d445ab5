import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ApplicationKey,
  authenticationReadModels,
  liveSchema,
  type LogEntry,
} from '@token-vault/contracts';
import {
  type Answer,
  cardToken,
  type Client,
  createClient,
  plainApplication,
  waitUntil,
} from '@token-vault/test-support';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeProxyOf, nowhere } from '../world/proxies.ts';
import { appendUnknownEvent, takeUnknownEventsBack } from '../world/unknown-events.ts';
import { type Caller, functionOf, makeApplicationBy } from '../world/vault.ts';
import { useAskingRuns } from './asking-runs.ts';
import { type SignalledStack, startSignalledStack } from './signalled-stack.ts';

const connections = 64;
/** A process learns of a read model that stands still within this time (rules.md §1). */
const learnedWithinMs = 1_000;
const permissions = ['token:create', 'token:read', 'token:use'];

let stack: SignalledStack;
let manager: Client;
let ports: ReadonlyMap<string, number>;
/** The path to invoke a proxy whose code answers. */
let proxy: string;
const services = ['query-service 1', 'query-service 2', 'command-service 1', 'command-service 2'];
/** All processes that have a port for callers. Requests of code are answered by the reactor-runners. */
const processes = [...services, 'proxy 1', 'proxy 2'];
const runs = useAskingRuns(() => stack);

beforeAll(async () => {
  stack = await startSignalledStack({ VAULT_EGRESS_ALLOW: '127.0.0.0/8' });
  manager = stack.vault.client();
  ports = new Map((await stack.members()).map(({ name, port }) => [name, port]));
  const body = { name: 'tenant', settings: { proxy_destinations: nowhere } };
  await manager.expect(200, 'PUT', '/tenants/self', { body });
  const { id } = await makeCaller();
  proxy = await makeProxyOf(manager, id, functionOf('return { raw: 1 };'));
});
afterAll(() => stack.remove());

const makeCaller = (): Promise<Caller> => makeApplicationBy(manager, { permissions });

/** A request of its kind to one process, without the gateway. */
function ask(name: string, key: string): Promise<Answer<unknown>> {
  const client = createClient(`http://127.0.0.1:${ports.get(name) ?? 0}`, key);
  if (name.startsWith('query')) return client.request('GET', '/tokens?size=1');
  if (name.startsWith('proxy')) return client.request('POST', proxy, { body: {} });
  return client.request('POST', '/tokens', { body: cardToken() });
}

const statuses = (key: string) =>
  Promise.all(processes.map(async (name) => [name, (await ask(name, key)).status]));
const all = (status: (name: string) => number) => processes.map((name) => [name, status(name)]);
const accepted = all((name) => (name.startsWith('command') ? 201 : 200));

/** Each process is asked again and again meanwhile, so that it has what it knows of the caller at hand. */
async function whileAsked<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
  expect(await statuses(key)).toEqual(accepted);
  let isOver = false;
  const asking = processes.map(async (name) => {
    while (!isOver) await ask(name, key);
  });
  try {
    return await work();
  } finally {
    isOver = true;
    await Promise.all(asking);
  }
}

/** A change that a busy machine does not confirm in time is answered 503. The repeat has the same idempotency key, so it makes no second change. */
async function confirmed<Body>(status: number, method: string, path: string, by = manager): Promise<Body> {
  const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
  for (;;) {
    const answer = await by.request<Body>(method, path, { headers });
    if (answer.status !== 503) {
      expect(answer.status).toBe(status);
      return answer.body;
    }
    await sleep(Number(answer.headers.get('retry-after')) * 1_000);
  }
}

it('a key is replaced three times under load without a failed request, and the replaced key is refused everywhere once it is deleted', async () => {
  const made = await makeApplicationBy(manager, plainApplication());
  const at = made.path;
  let { key } = made;
  let isOver = false;
  const failed: number[] = [];
  const answers = Array.from({ length: connections }, () => 0);
  const load = answers.map(async (_, index) => {
    while (!isOver) {
      const { status } = await ask(services[index % services.length] ?? '', key);
      answers[index] = (answers[index] ?? 0) + 1;
      if (status >= 400) failed.push(status);
    }
  });
  /** Two answers later no connection has a request with the key before under way. */
  const rounds = async () => {
    const before = [...answers];
    const isDone = () => answers.every((count, index) => count >= (before[index] ?? 0) + 2);
    await waitUntil(isDone, { what: 'two answers on each connection', timeoutMs: 60_000 });
  };
  try {
    for (let round = 0; round < 3; round += 1) {
      const listed = await manager.expect<ApplicationKey[]>(200, 'GET', `${at}/keys`);
      const [{ id: old } = { id: '' }] = listed.body;
      const before = key;
      ({ key } = await confirmed<{ key: string }>(200, 'POST', `${at}/regenerate?overlap=600`));
      await rounds();
      await confirmed(204, 'DELETE', `${at}/keys/${old}`);
      // A deletion is answered when no process accepts the key any more.
      for (const name of services) expect((await ask(name, before)).status).toBe(401);
    }
  } finally {
    isOver = true;
    await Promise.all(load);
  }
  expect(failed).toEqual([]);
});

/** Stopped processes hear of nothing meanwhile. They have requests that came after the stop. */
async function whileStopped(names: readonly string[], key: string, work: () => Promise<unknown>) {
  const pids = await Promise.all(names.map(async (name) => (await stack.member(name)).pid));
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  const asked = names.map((name) => ask(name, key));
  try {
    await work();
  } finally {
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  }
  return Promise.all(asked);
}

describe('a key', () => {
  const [working = '', ...others] = [
    'command-service 1',
    ...processes.filter((name) => !/command.* 1/.test(name)),
  ];

  it.each([
    ['whose application is deleted', ({ path }: Caller) => ['DELETE', path, 204] as const],
    ['that is replaced', ({ path }: Caller) => ['POST', `${path}/regenerate`, 200] as const],
    [
      'that is deleted',
      async ({ path }: Caller) => {
        const [only] = (await manager.expect<ApplicationKey[]>(200, 'GET', `${path}/keys`)).body;
        return ['DELETE', `${path}/keys/${only?.id ?? ''}`, 204] as const;
      },
    ],
  ])('%s is refused by every process from the answer on', async (_what, revocationOf) => {
    const caller = await makeCaller();
    const [method, path, status] = await revocationOf(caller);
    const by = await stack.clientOf(working, stack.vault.credentials.management_key);
    // Each process has what it knows of the caller at hand.
    expect(await statuses(caller.key)).toEqual(accepted);
    const answers = await whileStopped(others, caller.key, () => confirmed(status, method, path, by));
    expect(answers.map((answer) => answer.status)).toEqual(others.map(() => 401));
    expect(await statuses(caller.key)).toEqual(all(() => 401));
  });
});

it('code of a deleted application is refused by every reactor-runner from the answer on', async () => {
  const caller = await makeCaller();
  const results = await runs.start(caller, await makeCaller());
  await confirmed(204, 'DELETE', caller.path);
  const deletedMs = Date.now();
  const gone = { status: 403, errors: { error: ['The application of the reactor is gone.'] } };
  for (const result of await results()) expect(result).toMatchObject(gone);
  // The code has asked until it was refused.
  const path = `/logs?actor_id=${caller.id}&operation=list&size=100`;
  const { body } = await manager.expect<{ data: readonly LogEntry[] }>(200, 'GET', path);
  const answered = body.data.map(({ created_at: at }) => Date.parse(at));
  expect(answered.length).toBeGreaterThanOrEqual(4);
  expect(Math.max(...answered)).toBeLessThanOrEqual(deletedMs);
});

describe('a read model of authentication', () => {
  let database: pg.Client;
  beforeAll(async () => {
    database = new pg.Client(await stack.vault.databaseUrl());
    await database.connect();
  });
  afterAll(() => database.end());

  const isRefused = async (name: string, key: string, sinceMs: number) => {
    const isUnavailable = async () => {
      const { status, headers } = await ask(name, key);
      if (status === 503) expect(headers.get('retry-after')).toMatch(/^\d+$/);
      return status === 503;
    };
    const timeoutMs = learnedWithinMs - (Date.now() - sinceMs);
    await waitUntil(isUnavailable, { timeoutMs, what: `the refusal by ${name}` });
  };

  const setStatus = (status: string) =>
    database.query(`update projections.checkpoint set status = $1 where name = any($2)`, [
      status,
      authenticationReadModels,
    ]);

  const fail = async () => {
    await appendUnknownEvent(database);
    // When one process has failed at the event, the other one becomes the leader and tries it once.
    // A failure that is recorded later would stop the read model again after it has continued.
    const failures = (name: string) =>
      [...stack.vault.output().matchAll(new RegExp(`"projection":"${name}".*projection failed`, 'g'))].length;
    await waitUntil(() => authenticationReadModels.every((name) => failures(name) === 2), {
      timeoutMs: 60_000,
      what: 'the failure of the read models in both projectors',
    });
  };

  it.each([
    ['is paused', () => setStatus('paused'), () => setStatus('live')],
    [
      'has failed at an event of a newer release',
      fail,
      async () => {
        await takeUnknownEventsBack(database);
        await database.query(`update projections.checkpoint set status = 'live'`);
      },
    ],
  ])(
    'that %s stops every process within a second, and none once it continues',
    async (_what, stop, resume) => {
      const caller = await makeCaller();
      const results = await runs.start(caller, caller);
      const stoppedMs = await whileAsked(caller.key, async () => {
        await stop();
        const sinceMs = Date.now();
        await Promise.all(processes.map((name) => isRefused(name, caller.key, sinceMs)));
        expect(await statuses(caller.key)).toEqual(all(() => 503));
        return sinceMs;
      });
      await resume();
      for (const result of await results()) {
        const { raw } = result as { readonly raw: { readonly status: number; readonly atMs: number } };
        expect(raw.status).toBe(503);
        expect(raw.atMs - stoppedMs).toBeLessThanOrEqual(learnedWithinMs);
      }
      await waitUntil(async () => (await statuses(caller.key)).every(([, status]) => Number(status) < 300), {
        what: 'answers of every process',
      });
    },
  );

  it('that is more than 10 s behind stops every process, also one that nobody has asked meanwhile', async () => {
    const caller = await makeCaller();
    expect(await statuses(caller.key)).toEqual(accepted);
    await database.query(
      `begin; lock table ${liveSchema('applications')}.application in share row exclusive mode`,
    );
    try {
      const body = plainApplication();
      const { headers } = await manager.expect(201, 'POST', '/applications', { body });
      expect(headers.get('svc-consistency')).toBe('pending');
      const writtenMs = Date.now();
      const isOver = () => Date.now() - writtenMs > 10_000;
      await waitUntil(isOver, { timeoutMs: 15_000, pauseMs: 100, what: '10 s' });
      expect(await statuses(caller.key)).toEqual(all(() => 503));
    } finally {
      await database.query('rollback');
    }
    await waitUntil(async () => (await statuses(caller.key)).every(([, status]) => Number(status) < 300), {
      what: 'answers of every process',
    });
  });
});

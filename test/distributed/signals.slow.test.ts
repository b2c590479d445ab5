import { randomUUID } from 'node:crypto';
import type { Application, Reactor, Token } from '@token-vault/contracts';
import { projections } from '@token-vault/projectors';
import { type Answer, type Client, plainApplication, spawnVault, waitUntil } from '@token-vault/test-support';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { countsOf, linesOf } from './log-lines.ts';
import { startSignalledStack, type SignalledStack } from './signalled-stack.ts';
import { startTraffic } from './traffic.ts';

let stack: SignalledStack;
let manager: Client;
let backend: Client;
let key: string;
let slowReactor: string;
/** The log of the start. */
let started: string;
let database: pg.Client;

beforeAll(async () => {
  stack = await startSignalledStack({ VAULT_LOG_LEVEL: 'info' });
  await stack.allReady();
  started = stack.vault.output();
  manager = stack.vault.client();
  const body = plainApplication({ permissions: ['token:create', 'token:read', 'token:update', 'token:use'] });
  const made = await manager.expect<Application>(201, 'POST', '/applications', { body });
  key = made.body.key ?? '';
  backend = manager.withKey(key);
  database = await connected();
  const reactor = { name: 'slow', configuration: {}, code: slowCode };
  slowReactor = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body: reactor })).body.id;
}, 420_000);
const slowCode = `module.exports = async (req) => {
  await new Promise((resolve) => setTimeout(resolve, req.args.ms));
  return { raw: 'done' };
};`;
afterAll(async () => {
  await database.end();
  await stack.remove();
});

async function connected(): Promise<pg.Client> {
  const client = new pg.Client(await stack.vault.databaseUrl());
  // One of the tests ends Postgres, which closes this connection.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** The number of runs that a runner has begun for requests with this trace. The log is asked: a read model may be behind. */
async function begun(trace: string): Promise<number> {
  const { rows } = await database.query<{ count: number }>(
    `select count(*)::int as count from event_store.event
     where type = 'ReactorStarted' and metadata->>'trace_id' = $1`,
    [trace],
  );
  return rows[0]?.count ?? 0;
}

describe('the start', () => {
  it('warns of nothing, and shows no stack', () => {
    expect(linesOf(started).length).toBeGreaterThan(10);
    // A host may lack walls of the sandbox.
    const told = linesOf(started).filter(({ task }) => task !== 'sandbox');
    expect(told.filter(({ level, stack: shown }) => level >= 40 || shown)).toEqual([]);
  });
});

describe('SIGTERM to the runners of reactors', () => {
  it('lets running invocations end; the waiting ones run after the next start', async () => {
    const trace = randomUUID();
    const options = { body: { args: { ms: 1_500 } }, headers: { 'SVC-TRACE-ID': trace } };
    const invoked = Array.from({ length: 18 }, () =>
      backend.request('POST', `/reactors/${slowReactor}/react`, options),
    );
    await waitUntil(async () => (await begun(trace)) >= 4);
    const runners = [await stack.member('reactor-runner 1'), await stack.member('reactor-runner 2')];
    for (const { pid } of runners) process.kill(pid, 'SIGTERM');
    const answers = await Promise.all(invoked);
    expect(answers.map(({ status, text }) => `${status} ${text}`)).toEqual(
      answers.map(() => '200 {"raw":"done"}'),
    );
    await Promise.all(runners.map((runner) => stack.replaced(runner)));
  });
});

describe('SIGKILL of a command-service', () => {
  it('leaves its idempotency keys in flight for seconds, with Retry-After in the answers', async () => {
    const before = await stack.member('command-service 1');
    const trace = randomUUID();
    const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID(), 'SVC-TRACE-ID': trace };
    const options = { body: { args: { ms: 8_000 } }, headers };
    const ask = (client: Client) => client.request('POST', `/reactors/${slowReactor}/react`, options);
    const other = await stack.clientOf('command-service 2', key);
    const cutOff = ask(await stack.clientOf('command-service 1', key)).catch(() => 'cut off');
    await waitUntil(async () => (await begun(trace)) > 0);
    const early = await ask(other);
    expect([early.status, early.headers.get('retry-after')]).toEqual([409, '1']);
    process.kill(before.pid, 'SIGKILL');
    expect(await cutOff).toBe('cut off');
    const late = await waitUntil(
      async () => {
        const answer = await ask(other);
        return answer.status !== 409 && answer;
      },
      { timeoutMs: 30_000, what: 'the end of the lease' },
    );
    expect([late.status, late.text]).toEqual([200, '{"raw":"done"}']);
    await stack.replaced(before);
  });
});

describe('an append that is cut off', () => {
  const asToken = { type: 'token', data: 'cut off' };
  const writes: Record<string, () => Promise<() => Promise<Answer<unknown>>>> = {
    'a create': async () => () => backend.request('POST', '/tokens', { body: asToken }),
    'a tokenization': async () => () =>
      backend.request('POST', '/tokenize', { body: { a: asToken, b: 'too' } }),
    'a PATCH': async () => {
      const { id } = (await backend.expect<Token>(201, 'POST', '/tokens', { body: asToken })).body;
      return () => backend.request('PATCH', `/tokens/${id}`, { body: { metadata: { a: 'b' } } });
    },
    'a commit': async () => {
      const { id } = (await backend.expect<{ id: string }>(201, 'POST', '/transactions')).body;
      const headers = { 'SVC-TRANSACTION-ID': id };
      await backend.expect(201, 'POST', '/tokens', { body: asToken, headers });
      return () => backend.request('POST', `/transactions/${id}/commit`);
    },
  };

  it.each(Object.keys(writes))('of %s has an unknown outcome, by the router too', async (what) => {
    const write = await writes[what]?.();
    // Another connection looks on: a transaction sees the activities of its first look.
    const locker = await connected();
    await locker.query('begin; select * from event_store.head for update');
    try {
      let answer: Answer<unknown> | undefined;
      void write?.().then((it) => (answer = it));
      await waitUntil(async () => {
        const { rowCount } = await database.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where query like '%append_events%' and wait_event_type = 'Lock'`,
        );
        return answer !== undefined || (rowCount ?? 0) > 0;
      });
      await waitUntil(() => answer !== undefined);
      expect([answer?.status, answer?.text]).toEqual([502, expect.stringContaining(':outcome-unknown"')]);
    } finally {
      await locker.end();
    }
  });
});

describe('a rolling restart: SIGTERM to each process in turn, except the only router', () => {
  it('fails no request', async () => {
    const from = stack.vault.output().length;
    const traffic = startTraffic(backend, 8, slowReactor);
    const kinds = ['command-service', 'query-service', 'projectors', 'reactor-runner', 'proxy'];
    for (const name of [1, 2].flatMap((replica) => kinds.map((kind) => `${kind} ${replica}`))) {
      const before = traffic.done();
      await waitUntil(() => traffic.done() > before + 50, { timeoutMs: 60_000 });
      const service = await stack.member(name);
      process.kill(service.pid, 'SIGTERM');
      await stack.replaced(service);
    }
    await traffic.stop();
    expect(traffic.wrong).toEqual([]);
    const told = linesOf(stack.vault.output().slice(from)).filter(({ msg }) => msg.startsWith('not ready'));
    expect(told.filter(({ level, stack: shown }) => level >= 40 || shown)).toEqual([]);
  });
});

describe('SIGTERM to the router', () => {
  it('ends it after the requests under way', async () => {
    const router = await stack.member('gateway');
    const trace = randomUUID();
    const options = { body: { args: { ms: 2_000 } }, headers: { 'SVC-TRACE-ID': trace } };
    const underWay = backend.request('POST', `/reactors/${slowReactor}/react`, options);
    await waitUntil(async () => (await begun(trace)) > 0);
    process.kill(router.pid, 'SIGTERM');
    expect((await underWay).status).toBe(200);
    await stack.replaced(router);
  });
});

describe('a stopped service', () => {
  it('gets no more requests; another one answers its reads, and the outcome of its writes is unknown', async () => {
    const stopped = [await stack.member('command-service 1'), await stack.member('query-service 1')];
    for (const { pid } of stopped) process.kill(pid, 'SIGSTOP');
    try {
      const writes = Array.from({ length: 8 }, () =>
        backend.request('POST', '/tokens', { body: { type: 'token', data: 'still' } }),
      );
      const reads = Array.from({ length: 8 }, () => backend.request('GET', '/tokens?size=1'));
      // Shorter than the 240 s that an answer may take.
      const answered = Promise.all([Promise.all(writes), Promise.all(reads)]);
      const [written, read] = await Promise.race([answered, delay(60_000, [[], []] as const)]);
      expect(new Set(read.map(({ status }) => status))).toEqual(new Set([200]));
      expect(new Set(written.map(({ status }) => status))).toEqual(new Set([201, 504]));
      const traffic = startTraffic(backend, 4);
      await waitUntil(() => traffic.done() > 50);
      await traffic.stop();
      expect(traffic.wrong).toEqual([]);
    } finally {
      for (const { pid } of stopped) process.kill(pid, 'SIGCONT');
    }
  });
});

describe('all replicas of a service, stopped', () => {
  it('are given up: nothing was done for reads, the outcome of writes is unknown, and later requests are done again', async () => {
    const names = ['command-service', 'query-service'].flatMap((kind) => [`${kind} 1`, `${kind} 2`]);
    const stopped = await Promise.all(names.map((name) => stack.member(name)));
    for (const { pid } of stopped) process.kill(pid, 'SIGSTOP');
    try {
      const body = { type: 'token', data: 'still' };
      const writes = Array.from({ length: 4 }, () => backend.request('POST', '/tokens', { body }));
      const reads = Array.from({ length: 4 }, () => backend.request('GET', '/tokens?size=1'));
      const answered = Promise.all([Promise.all(writes), Promise.all(reads)]);
      const [written, read] = await Promise.race([answered, delay(60_000, [[], []] as const)]);
      expect(new Set(read.map(({ status }) => status))).toEqual(new Set([503]));
      expect(
        new Set(written.map(({ status, text }) => `${status} ${text.includes(':outcome-unknown"')}`)),
      ).toEqual(new Set(['504 true']));
    } finally {
      for (const { pid } of stopped) process.kill(pid, 'SIGCONT');
    }
    await stack.allReady();
    const traffic = startTraffic(backend, 4);
    await waitUntil(() => traffic.done() > 50);
    await traffic.stop();
    expect(traffic.wrong).toEqual([]);
  });
});

describe('stack.json', () => {
  it('names the leader of each task, and the next one when that is killed', async () => {
    const tasks = [...projections.map(({ name }) => name), 'housekeeping'].sort();
    const leaders = async () => (await stack.members()).flatMap(({ leads }) => leads ?? []).sort();
    const haveLeaders = async () => isDeepStrictEqual(await leaders(), tasks);
    const options = { timeoutMs: 60_000, what: 'a leader of each task' };
    await waitUntil(haveLeaders, options);
    const leader = (await stack.members()).find(({ leads }) => leads?.includes('tokens'));
    expect(leader?.name).toMatch(/^projectors /);
    if (!leader) return;
    process.kill(leader.pid, 'SIGKILL');
    const isFollowed = async () => {
      const now = (await stack.members()).find(({ leads }) => leads?.includes('tokens'));
      return now !== undefined && now.pid !== leader.pid;
    };
    await waitUntil(isFollowed, { timeoutMs: 60_000, what: 'the next leader' });
    await waitUntil(haveLeaders, options);
    await stack.replaced(leader);
  });
});

it('each process says by its metrics that its role in the embedded Postgres does not reach the host', async () => {
  const served = (await stack.members()).filter(({ name }) => /service|projectors|runner|proxy/.test(name));
  expect(served.length).toBeGreaterThanOrEqual(5);
  for (const { name, port } of served) {
    const isSaid = async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      return /^vault_database_right\{right="superuser",.*\} 0$/m.test(metrics);
    };
    await waitUntil(isSaid, { what: `the rights of ${name}` });
  }
});

describe('stopped projectors', () => {
  it.each(['projectors 1', 'projectors 2'])('are replaced by the others: %s', async (name) => {
    const { pid } = await stack.member(name);
    process.kill(pid, 'SIGSTOP');
    try {
      const isShown = async () => {
        const body = { type: 'token', data: 'relieved' };
        const made = await backend.request('POST', '/tokens', { body });
        return made.status === 201 && !made.headers.has('svc-consistency');
      };
      await waitUntil(isShown, { timeoutMs: 60_000, what: 'read models that go on' });
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });
});

describe('SIGKILL of Postgres', () => {
  it('does not stop the stack: it starts Postgres again, and each process reports the loss and its end', async () => {
    const ended = new Promise<void>((resolve) => database.once('end', resolve));
    await stack.allReady();
    const before = await stack.vault.postmasterPid();
    const from = stack.vault.output().length;
    const traffic = startTraffic(backend, 8);
    await stack.keepPostgresAway(5_000);
    await ended;
    const body = { type: 'token', data: 'after' };
    await waitUntil(async () => (await backend.request('POST', '/tokens', { body })).status === 201, {
      timeoutMs: 60_000,
      what: 'a vault that goes on',
    });
    await traffic.stop();
    const now = await stack.member('postgres');
    expect(now.pid).not.toBe(before);
    expect(now.pid).toBe(await stack.vault.postmasterPid());
    database = await connected();

    expect(traffic.wrong.length).toBeGreaterThan(10);
    const told = () => linesOf(stack.vault.output().slice(from));
    const saying = (text: string) => told().filter(({ msg }) => msg === text);
    // Two processes of each of five services, each of which depends on the database for two reasons.
    await waitUntil(() => saying('ready again').length >= 20, {
      timeoutMs: 30_000,
      what: 'the end of the loss',
    });
    const toldOnce = countsOf(saying('not ready'), ({ service, reason }) => `${service}: ${reason}`);
    expect(toldOnce).toEqual(
      countsOf(saying('ready again'), ({ service, reason }) => `${service}: ${reason}`),
    );
    expect([Object.keys(toldOnce).length, new Set(Object.values(toldOnce))]).toEqual([10, new Set([2])]);
    const warnings = told().filter(
      ({ level, count, service }) => level === 40 && !count && service !== 'stack',
    );
    const kinds = countsOf(warnings, (line) =>
      [line.service, line.msg, line.error_code, line.code, line.reason].join(),
    );
    expect(Object.entries(kinds).filter(([, count]) => count > 2)).toEqual([]);
  });
});

describe('SIGTERM to a stack that answers, but has not completed its start', () => {
  it('cuts off no request', async () => {
    await stack.vault.stop();
    const options = { dataDir: stack.vault.dataDir, env: { VAULT_STACK_REPLICAS: '1' } };
    const vault = await spawnVault({ ...options, stack: 'processes' });
    const { pid } = await waitUntil(async () => {
      const late = await stack.member('proxy 1');
      return late.pid > 0 && late;
    });
    // The stack waits for the start of each process.
    process.kill(pid, 'SIGSTOP');
    try {
      const gateway = () => stack.clientOf('gateway', key);
      const isReady = async () => (await (await gateway()).request('GET', '/health/ready')).status === 200;
      await waitUntil(isReady, { timeoutMs: 60_000, what: 'a stack that answers' });
      const client = await gateway();
      const asked = Array.from({ length: 8 }, () => client.request('GET', '/tokens?size=1'));
      vault.signal('SIGTERM');
      const statuses = (await Promise.all(asked)).map(({ status }) => status);
      expect(statuses).toEqual(asked.map(() => 200));
      expect(vault.output()).not.toContain('vault ready');
    } finally {
      process.kill(pid, 'SIGCONT');
      vault.signal('SIGTERM');
    }
    expect(await vault.exited).toEqual({ code: 0, signal: null });
    expect(vault.errors()).toBe('');
  });
});

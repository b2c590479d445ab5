import { createSocket } from 'node:dgram';
import { afterEach, describe, expect, it } from 'vitest';
import { waitUntil } from '@token-vault/test-support';
import { createEgressBroker, EgressError } from '../src/index.ts';
import { parseHosts } from '../src/hosts-file.ts';
import { createHostResolver } from '../src/resolver.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

interface DnsServer {
  readonly address: string;
  /** The names of the received A queries, in order. */
  readonly asked: string[];
}

function nameIn(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.'), end: at + 5 };
}

/** Answers A queries from the table, answers other queries with no data, and does not answer names with `silent`. */
async function startDns(table: Record<string, { address: string; ttl: number }>): Promise<DnsServer> {
  const socket = createSocket('udp4');
  const asked: string[] = [];
  socket.on('message', (query, { port, address }) => {
    const { name, end } = nameIn(query);
    const isA = query.readUInt16BE(end - 4) === 1;
    if (isA) asked.push(name);
    if (name.includes('silent')) return;
    const found = isA ? table[name] : undefined;
    const header = Buffer.from(query.subarray(0, 12));
    header.writeUInt16BE(0x8180 | (table[name] ? 0 : 3), 2);
    for (const [index, count] of [1, found ? 1 : 0, 0, 0].entries())
      header.writeUInt16BE(count, 4 + 2 * index);
    const record = Buffer.alloc(found ? 16 : 0);
    if (found) {
      record.writeUInt16BE(0xc00c, 0);
      record.writeUInt16BE(1, 2);
      record.writeUInt16BE(1, 4);
      record.writeUInt32BE(found.ttl, 6);
      record.writeUInt16BE(4, 10);
      found.address.split('.').forEach((part, index) => record.writeUInt8(Number(part), 12 + index));
    }
    socket.send(Buffer.concat([header, query.subarray(12, end), record]), port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  cleanups.push(() => socket.close());
  return { address: `127.0.0.1:${socket.address().port}`, asked };
}

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => error,
  );

describe('names that a tenant looks up', () => {
  it('take no thread of libuv, whose four threads all requests share', async () => {
    const { address, asked } = await startDns({});
    const broker = createEgressBroker({ dnsServers: [address] });
    cleanups.push(() => broker.close());
    const abort = new AbortController();
    const requests = Array.from({ length: 8 }, (_, index) =>
      failureOf(
        broker.fetch({ tenantId: 'mallory', url: `https://silent${index}.test/`, signal: abort.signal }),
      ),
    );
    const resources = process.getActiveResourcesInfo();
    expect(resources).not.toContain('GetAddrInfoReqWrap');
    await waitUntil(() => asked.length >= 8);
    abort.abort();
    expect((await Promise.all(requests)).every((error) => error instanceof EgressError)).toBe(true);
  });

  it('wait for each other beyond sixteen', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `name${index}.test`);
    const known = { address: '93.184.216.34', ttl: 60 };
    const { address } = await startDns(Object.fromEntries(names.map((name) => [name, known])));
    // As long as a busy machine needs.
    const resolve = createHostResolver({ servers: [address], timeoutMs: 60_000, waitMs: 60_000 });
    const found = await Promise.all(names.map((name) => resolve('alice', name)));
    expect(new Set(found.flat())).toEqual(new Set([known.address]));
  });

  it('are not asked for when they had to wait for long, and other tenants do not wait for them', async () => {
    const { address, asked } = await startDns({ 'good.test': { address: '93.184.216.34', ttl: 60 } });
    const resolve = createHostResolver({ servers: [address], timeoutMs: 10_000 });
    const all = Array.from({ length: 40 }, (_, index) =>
      failureOf(resolve('mallory', `silent${index}.test`)),
    );
    await waitUntil(() => new Set(asked).size >= 16);
    expect(await resolve('alice', 'good.test')).toEqual(['93.184.216.34']);
    expect(new Set(asked).size).toBe(17);
    const errors = await Promise.all(all);
    // The first ones end after their time limit.
    expect(errors.filter((error) => error instanceof EgressError)).toHaveLength(24);
    expect(new Set(asked).size).toBe(17);
  }, 120_000);

  it('are refused beyond those that may wait', async () => {
    const { address } = await startDns({});
    const resolve = createHostResolver({ servers: [address], timeoutMs: 100 });
    const all = Array.from({ length: 300 }, (_, index) =>
      failureOf(resolve('mallory', `silent${index}.test`)),
    );
    const errors = await Promise.all(all);
    expect(errors.filter((error) => error instanceof EgressError).length).toBeGreaterThanOrEqual(
      300 - 256 - 16,
    );
  }, 30_000);
});

describe('a name', () => {
  it('is looked up once within the validity of its answer, for each tenant', async () => {
    let now = 0;
    const { address, asked } = await startDns({ 'good.test': { address: '93.184.216.34', ttl: 30 } });
    const resolve = createHostResolver({ servers: [address], timeoutMs: 60_000, now: () => now });
    await Promise.all([resolve('alice', 'good.test'), resolve('alice', 'GOOD.test.')]);
    await resolve('alice', 'good.test');
    expect(asked).toHaveLength(1);
    await resolve('bob', 'good.test');
    expect(asked).toHaveLength(2);
    now += 31_000;
    expect(await resolve('alice', 'good.test')).toEqual(['93.184.216.34']);
    expect(asked).toHaveLength(3);
  });

  it('without an address is not looked up again at once; a name whose server did not answer is', async () => {
    let now = 0;
    const { address, asked } = await startDns({});
    const options = { servers: [address], now: () => now };
    /** As long as a busy machine needs to answer. */
    const patient = createHostResolver({ ...options, timeoutMs: 60_000 });
    const isAsked = async (): Promise<boolean> => {
      const before = asked.length;
      expect(await failureOf(patient('alice', 'none.test'))).toBeInstanceOf(Error);
      return asked.length > before;
    };
    expect([await isAsked(), await isAsked()]).toEqual([true, false]);
    now += 5_001;
    expect(await isAsked()).toBe(true);
    const hasty = createHostResolver({ ...options, timeoutMs: 200 });
    for (let time = 0; time < 2; time += 1) {
      const before = asked.length;
      // The resolver gives the look-up up. c-ares itself would do so later, with another code.
      expect(await failureOf(hasty('alice', 'silent.test'))).toMatchObject({ code: 'ECANCELLED' });
      await waitUntil(() => asked.length > before, { what: 'the question to the server' });
    }
  });

  it('of the hosts file, or of this machine, is sent to no server', async () => {
    const { address, asked } = await startDns({});
    const hosts = () => '10.1.2.3 db.internal db # the database\n\n::1 six\n10.1.2.4 db.internal\n';
    const resolve = createHostResolver({ servers: [address], hosts });
    expect(await resolve('alice', 'DB.internal')).toEqual(['10.1.2.3', '10.1.2.4']);
    expect(await resolve('alice', 'localhost')).toEqual(['127.0.0.1', '::1']);
    expect(await resolve('alice', 'a.localhost')).toEqual(['127.0.0.1', '::1']);
    expect(asked).toEqual([]);
    expect(parseHosts(hosts()).get('six')).toEqual(['::1']);
  });

  it('with an address that is not public is refused, from the cache as well', async () => {
    const { address } = await startDns({ 'inside.test': { address: '169.254.169.254', ttl: 60 } });
    const broker = createEgressBroker({ dnsServers: [address] });
    cleanups.push(() => broker.close());
    for (let time = 0; time < 2; time += 1) {
      const failure = await failureOf(broker.fetch({ tenantId: 'mallory', url: 'https://inside.test/' }));
      expect(failure).toMatchObject({ code: 'refused-address' });
    }
  });
});

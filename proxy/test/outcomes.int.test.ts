import { ForbiddenError } from '@token-vault/contracts';
import { createEgressBroker } from '@token-vault/egress';
import { createMetrics, observeProxyRequests, type Metrics } from '@token-vault/observability';
import { waitUntil } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ProxyDependencies } from '../src/routes.ts';
import { fixture, openProxy as open, read, useProxyFixture } from './proxy-fixture.ts';

useProxyFixture();
let metrics: Metrics;
beforeEach(() => (metrics = createMetrics('proxy')));
const openProxy = (change: Partial<ProxyDependencies> = {}) =>
  open({ observe: observeProxyRequests(metrics), ...change });

/** The value of each series of a metric that is not zero. */
async function seriesOf(name: string): Promise<Record<string, number>> {
  const lines = (await metrics.registry.metrics()).split('\n');
  const found = lines.flatMap((line) => {
    const [, labels = '', value] = new RegExp(`^${name}\\{(.*)\\} (\\S+)$`).exec(line) ?? [];
    const outcome = /outcome="(.*?)"/.exec(labels)?.[1] ?? 'all';
    return value === undefined || value === '0' ? [] : [[outcome, Number(value)] as const];
  });
  return Object.fromEntries(found);
}
const outcomes = () => seriesOf('vault_proxy_request_duration_seconds_count');
const underWay = () => seriesOf('vault_proxy_requests_under_way');

const ends = async (outcome: string): Promise<void> => {
  await waitUntil(async () => Object.keys(await outcomes()).length > 0, { what: 'the outcome' });
  expect([await outcomes(), await underWay()]).toEqual([{ [outcome]: 1 }, {}]);
};

describe('the metrics of the proxy', () => {
  it('count an answered request when its last byte is read; before, it is under way', async () => {
    const { stream } = await openProxy()();
    expect([await outcomes(), await underWay()]).toEqual([{}, { all: 1 }]);
    await read(stream);
    await ends('answered');
    expect(await metrics.registry.metrics()).not.toMatch(/127\.0\.0\.1|localhost/);
  });

  it('count a destination that is refused for its address', async () => {
    fixture.url = 'https://10.0.0.1';
    await expect(openProxy()()).rejects.toMatchObject({ status: 403 });
    await ends('refused');
  });

  it('count a destination that the list of the tenant does not have', async () => {
    const findProxy: ProxyDependencies['findProxy'] = async (_tenantId, id) => ({
      id,
      revision: 0,
      destination: 'https://elsewhere.example',
      destinations: [],
      requestCode: undefined,
      responseCode: undefined,
      applicationId: undefined,
      configuration: async () => ({}),
    });
    const settings = { proxy_destinations: fixture.url.replace('http:', 'https:') };
    const asked = openProxy({ findProxy })(randomUUID(), undefined, randomUUID(), settings);
    await expect(asked).rejects.toMatchObject({ status: 403 });
    await ends('refused');
  });

  it('count a connection that ends before the answer, or within it', async () => {
    fixture.answering = (_request, response) => void response.destroy();
    await expect(openProxy()()).rejects.toMatchObject({ status: 502 });
    await ends('failed');
    metrics = createMetrics('proxy');
    fixture.answering = (_request, response) => {
      response.writeHead(200, { 'content-length': '10' });
      response.write('half', () => response.destroy());
    };
    const { stream } = await openProxy()();
    await expect(read(stream)).rejects.toThrow();
    await ends('failed');
  });

  it('count a destination that does not answer in time', async () => {
    const broker = createEgressBroker({ allowCidrs: ['127.0.0.1/32'], answerTimeoutMs: 100 });
    fixture.answering = () => undefined;
    await expect(openProxy({ send: broker.send })()).rejects.toMatchObject({ status: 504 });
    await ends('timed-out');
    await broker.close();
  });

  it('count an answer that is withheld, and a request that does not leave', async () => {
    let isGone = false;
    fixture.answering = (_request, response) => {
      isGone = true;
      response.end('done');
    };
    const gone = async () => {
      if (isGone) throw new ForbiddenError('gone');
      return undefined;
    };
    await expect(openProxy()(randomUUID(), gone)).rejects.toThrow('gone');
    await ends('withheld');
    metrics = createMetrics('proxy');
    await expect(openProxy()(randomUUID(), gone)).rejects.toThrow('gone');
    await ends('not-sent');
  });

  it('count a request whose tokens are refused, and one that cannot be recorded', async () => {
    const takeTokens = () => Promise.reject(new ForbiddenError('not this one'));
    await expect(openProxy({ takeTokens })()).rejects.toThrow('not this one');
    await ends('not-sent');
    metrics = createMetrics('proxy');
    fixture.isLogDown = true;
    await expect(openProxy()()).rejects.toMatchObject({ code: 'unavailable' });
    await ends('not-sent');
  });

  it('count a client that has gone', async () => {
    const { stream } = await openProxy()();
    stream?.body.destroy();
    await ends('client-gone');
  });

  it('count requests beyond the maximum of an application; the others of its tenant have theirs', async () => {
    const held: ServerResponse[] = [];
    fixture.answering = (_request, response) => void held.push(response);
    const proxy = openProxy();
    const tenantId = randomUUID();
    const all = Array.from({ length: 128 }, () => proxy(tenantId));
    await waitUntil(() => held.length === 128, { what: 'all of them' });
    await expect(proxy(tenantId)).rejects.toMatchObject({ code: 'unavailable' });
    expect([await outcomes(), await underWay()]).toEqual([{ 'too-many': 1 }, { all: 128 }]);
    fixture.applicationId = randomUUID();
    all.push(proxy(tenantId));
    await waitUntil(() => held.length === 129, { what: 'that of the other application' });
    held.forEach((response) => response.end('done'));
    await Promise.all((await Promise.all(all)).map(({ stream }) => read(stream)));
    expect([await outcomes(), await underWay()]).toEqual([{ answered: 129, 'too-many': 1 }, {}]);
  });
});

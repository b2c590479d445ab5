import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import {
  newId,
  securityWebhookSetting,
  streams,
  tenantStatement,
  TenantUpdated,
  TenantWebhookSecretRotated,
} from '@token-vault/contracts';
import { secret } from '@token-vault/crypto';
import { createEgressBroker } from '@token-vault/egress';
import { createTestDatabase, createTestPool, waitUntil } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { deliverAlert } from '../src/webhooks/alerts.ts';
import { Deliveries, type DeliveryDependencies } from '../src/webhooks/deliver.ts';
import { signatureHeaders } from '../src/webhooks/signature.ts';
import {
  event,
  invoker,
  noLimit,
  nothingSeen,
  tenantId,
  useRunnerFixture,
  type RunnerFixture,
} from './runner-fixture.ts';

/** The secret of the fixture. */
const before = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const after = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';

let pool: Pool;
beforeAll(async () => {
  const database = await createTestDatabase();
  pool = createTestPool(database.url);
  await pool.query(`create schema rm_alerts;
    create table rm_alerts.delivery (id uuid, tenant_id uuid, next_at timestamptz, content jsonb)`);
  return async () => {
    await pool.end();
    await database.drop();
  };
});

interface Arrived {
  readonly path: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

let arrived: Arrived[];
let port: number;
const server = createServer((request, response) => {
  void text(request).then((body) => {
    arrived.push({ path: request.url, headers: request.headers, body });
    response.end();
  });
});
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

let fixture: RunnerFixture;
useRunnerFixture((made) => (fixture = made));
beforeEach(() => (arrived = []));

const urlOf = (path: string) => `http://slow.test:${port}${path}`;
const place = { tenantId, entity: `tenant:${tenantId}`, field: 'webhook_secret' };

const unsent: Arrived = { path: undefined, headers: {}, body: '' };

/** The secrets that signed the last webhook. */
function signers(): readonly string[] {
  const { headers, body } = arrived.at(-1) ?? unsent;
  const at = new Date(Number(headers['webhook-timestamp']) * 1000);
  const given = String(headers['webhook-signature']).split(' ');
  const isBy = (key: string) => {
    const signed = signatureHeaders([key], { id: String(headers['webhook-id']), at, body });
    return given.includes(new Map(signed).get('webhook-signature') ?? '');
  };
  expect(given.filter((each) => each.startsWith('v1,'))).toHaveLength([before, after].filter(isBy).length);
  return [before, after].filter(isBy);
}

async function rotate(overlapSeconds: number): Promise<void> {
  const { keyRing, store, clock } = fixture;
  const seal = (text: string) => keyRing.sealNew(place, secret(text));
  const end = new Date(clock.now().getTime() + overlapSeconds * 1000).toISOString();
  const earlier = overlapSeconds > 0 ? [{ secret: await seal(before), expires_at: end }] : [];
  const rotated = { tenant_id: tenantId, secret: await seal(after), earlier };
  await store.append(
    streams.tenant(tenantId),
    [event(TenantWebhookSecretRotated, rotated, clock.now())],
    'any',
  );
}

async function configure(securityUrl: string, isGenuine = true): Promise<void> {
  const { store, keyRing, clock } = fixture;
  const settings = { [securityWebhookSetting]: securityUrl };
  const stream = streams.tenant(tenantId);
  let revision = 0;
  for await (const _event of store.readStream(stream)) revision += 1;
  const statement = tenantStatement({ plan: 'enterprise', settings, acceptsUnsigned: false });
  const signature = (await keyRing.hashes(tenantId)).sign(statement, revision);
  const updated = { tenant_id: tenantId, name: 'tenant', settings, ...(isGenuine && { signature }) };
  await store.append(stream, [event(TenantUpdated, updated, clock.now())], 'any');
}

/** Longer than a decision counts. */
async function overADecision(): Promise<void> {
  const sinceMs = performance.now();
  await waitUntil(() => performance.now() - sinceMs > 150, { what: 'the time' });
}

/** The dependencies of a delivery. `meanwhile` is done while the first connection is being made, which takes longer than a decision counts. */
function sendingSlowly(meanwhile: () => Promise<unknown>): DeliveryDependencies {
  let isFirst = true;
  const broker = createEgressBroker({
    allowCidrs: ['127.0.0.0/8'],
    async resolve() {
      if (isFirst) {
        isFirst = false;
        await meanwhile();
        await overADecision();
      }
      return ['127.0.0.1'];
    },
  });
  onTestFinished(() => broker.close());
  return {
    ...fixture,
    findInvoker: async (ofTenant, actor) => invoker(ofTenant, actor),
    decisionOnUse: async () => () => undefined,
    refuseOwner: async () => undefined,
    decisionOnSeen: nothingSeen,
    fetch: broker.fetch,
  };
}

interface Made {
  readonly stream: string;
  send(dependencies: DeliveryDependencies, signal?: AbortSignal): Promise<void>;
}

async function makeResult(): Promise<Made> {
  const invocation = await fixture.invoke({}, urlOf('/old'));
  await fixture.runner().handle(await fixture.historyOf(invocation));
  const { id, stream } = invocation;
  return {
    stream,
    send: (dependencies, signal = noLimit) => new Deliveries(dependencies).deliver(tenantId, id, signal),
  };
}

async function makeAlert(): Promise<Made> {
  const id = newId();
  await configure(urlOf('/old'));
  await pool.query('insert into rm_alerts.delivery values ($1, $2, now(), $3)', [
    id,
    tenantId,
    { trace_id: 'trace' },
  ]);
  return {
    stream: streams.alert(tenantId, id),
    send: (dependencies, signal = noLimit) =>
      deliverAlert({ ...dependencies, pool }, { tenantId, id }, signal),
  };
}

async function endsOf({ stream }: Made) {
  const ends: { type: string; reason: unknown }[] = [];
  for await (const { type, data } of fixture.store.readStream(stream))
    if (/^(Webhook|Alert)/.test(type))
      ends.push({ type, reason: 'reason' in data ? data.reason : undefined });
  return ends;
}

describe.each([
  ['the result of a run', makeResult, { delivered: 'WebhookDelivered', gone: 'no longer kept' }],
  ['a security webhook', makeAlert, { delivered: 'AlertDelivered', gone: 'the tenant is gone' }],
] as const)('the connection for %s', (_name, make, { delivered, gone }) => {
  it.each([
    ['without overlap: the new secret alone signs', 0, [after]],
    ['with overlap: both sign', 60, [before, after]],
  ])('is being made while the secret is rotated %s', async (_case, overlap, expected) => {
    const made = await make();
    await made.send(sendingSlowly(() => rotate(overlap)));
    expect(arrived).toHaveLength(1);
    expect(signers()).toEqual(expected);
    expect(await endsOf(made)).toEqual([{ type: delivered, reason: undefined }]);
  });

  it('is being made while an overlap ends: the earlier secret signs no more', async () => {
    const made = await make();
    await rotate(60);
    await made.send(sendingSlowly(async () => fixture.clock.advance(61_000)));
    expect(signers()).toEqual([after]);
  });

  it('is being made while the secret is destroyed: nothing is sent', async () => {
    const made = await make();
    await made.send(sendingSlowly(() => fixture.keyRing.destroyKeysOfEntity(tenantId, place.entity)));
    expect(arrived).toEqual([]);
    expect(await endsOf(made)).toMatchObject([{ reason: gone }]);
  });

  it('is being made when the time of the place is over: nothing is sent, and the attempt has failed', async () => {
    const made = await make();
    const limit = new AbortController();
    const end = async () => limit.abort(new DOMException('over', 'TimeoutError'));
    await made.send(sendingSlowly(end), limit.signal);
    expect(arrived).toEqual([]);
    expect(await endsOf(made)).toMatchObject([{ reason: 'timeout' }]);
  });

  it('is there when the secret cannot be read: nothing is sent, and the attempt does not count', async () => {
    const made = await make();
    let isFailing = false;
    const dependencies = sendingSlowly(async () => (isFailing = true));
    const { store } = fixture;
    const failing: typeof store = Object.assign(Object.create(store) as typeof store, {
      readStream(...[stream, ...options]: Parameters<typeof store.readStream>) {
        if (isFailing && stream === streams.tenant(tenantId)) throw new Error('the log is away');
        return store.readStream(stream, ...options);
      },
    });
    await expect(made.send({ ...dependencies, store: failing })).rejects.toThrow('the log is away');
    expect(arrived).toEqual([]);
    expect(await endsOf(made)).toEqual([]);
  });
});

it('a result whose caller is deleted while the secret is being read is not sent: a refusal is', async () => {
  const made = await makeResult();
  const { keyRing } = fixture;
  let [reads, isDeleted] = [0, false];
  const slow: typeof keyRing = Object.assign(Object.create(keyRing) as typeof keyRing, {
    async open(...asked: Parameters<typeof keyRing.open>) {
      if (asked[0].field === 'webhook_secret') reads += 1;
      // The second attempt leaves at once.
      if (reads === 2 && !isDeleted) {
        isDeleted = true;
        await overADecision();
      }
      return keyRing.open(...asked);
    },
  });
  const findInvoker: DeliveryDependencies['findInvoker'] = async (ofTenant, actor) =>
    isDeleted ? undefined : invoker(ofTenant, actor);
  await made.send({ ...sendingSlowly(() => Promise.resolve()), keyRing: slow, findInvoker });
  expect(arrived.map(({ body }) => JSON.parse(body) as object)).toMatchObject([{ status: 403 }]);
});

describe('security_webhook_url, changed while the connection to the URL of before is being made', () => {
  it('gets the security webhook at once', async () => {
    const made = await makeAlert();
    await made.send(sendingSlowly(() => configure(urlOf('/new'))));
    expect(arrived.map(({ path }) => path)).toEqual(['/new']);
    expect(await endsOf(made)).toEqual([{ type: 'AlertDelivered', reason: undefined }]);
  });

  it.each([
    ['before', () => configure(urlOf('/forged'), false), async () => undefined],
    ['meanwhile', async () => undefined, () => configure(urlOf('/forged'), false)],
  ])('gets nothing when it was forged %s, and the alteration is told', async (_when, before, meanwhile) => {
    const made = await makeAlert();
    await before();
    await made.send(sendingSlowly(meanwhile));
    expect(arrived).toEqual([]);
    expect(await endsOf(made)).toEqual([{ type: 'AlertAttemptFailed', reason: 'record altered' }]);
    expect(fixture.altered).toEqual(['tenant']);
  });

  it('ends the security webhook when it was removed', async () => {
    const made = await makeAlert();
    await made.send(sendingSlowly(() => configure('')));
    expect(arrived).toEqual([]);
    expect(await endsOf(made)).toEqual([{ type: 'AlertGivenUp', reason: 'no security_webhook_url' }]);
  });
});

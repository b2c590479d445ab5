import { randomUUID } from 'node:crypto';
import { streams } from '@token-vault/contracts';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import type { Position } from '@token-vault/event-store';
import { KnownRevocations, watchReadModels } from '@token-vault/read-models';
import { beforeEach, expect, it } from 'vitest';
import { createProxyKeys, type ProxyCallerDependencies } from '../src/proxy-callers.ts';

const [tenantId, proxyId, applicationId] = [randomUUID(), randomUUID(), randomUUID()];
const key = generateApiKey('pvt');
const hash = hashApiKey(key);
const checkpoint = { position: '1' as Position, status: 'live' };

let revocations: KnownRevocations;
/** The hashes of the keys that the proxy has, and of those that it had. */
let keys: string[];
let retiredHashes: string[];
/** Runs while the application of the proxy is looked up. */
let meanwhile: () => void;

const watch = watchReadModels({
  progress: {
    read: async () => ({
      beganMs: performance.now(),
      checkpoints: new Map(['applications', 'tenants'].map((name) => [name, checkpoint])),
      revocations,
    }),
  },
});
const proxyKeys = createProxyKeys({
  pool: { query: async () => ({ rows: [{ tenant_id: tenantId }] }) },
  findProxy: async () => ({
    details: {
      applicationId,
      requireAuth: true,
      keys: keys.map((each) => ({ id: 'k', hash: each })),
      retiredHashes,
    },
  }),
  findApplication: async () => {
    meanwhile();
    return { applicationId };
  },
  clock: { now: () => new Date(0) },
  keyUses: { note: () => undefined },
  watch,
} as unknown as ProxyCallerDependencies);

function revoke(stream: string): void {
  const generation = revocations.generation + 1;
  revocations = revocations.upTo(generation, [[generation, stream]]);
  watch.forget();
}

beforeEach(() => {
  revocations = new KnownRevocations(1);
  watch.forget();
  keys = [hash];
  retiredHashes = [];
  meanwhile = () => {};
});

it('a key of a proxy that is deleted while its application is looked up opens nothing', async () => {
  meanwhile = () => {
    keys = [];
    retiredHashes = [hash];
    revoke(streams.proxy(tenantId, proxyId));
  };
  expect(await proxyKeys.authenticate(proxyId, key)).toMatchObject({
    kind: 'retired',
    key: { reason: 'deleted' },
  });
});

it('revocations of others do not delay the caller of a proxy', async () => {
  let lookUps = 0;
  meanwhile = () => {
    lookUps += 1;
    revoke(streams.proxy(tenantId, randomUUID()));
  };
  expect((await proxyKeys.authenticate(proxyId, key)).kind).toBe('authenticated');
  expect(lookUps).toBe(1);
});

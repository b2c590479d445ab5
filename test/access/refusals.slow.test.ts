import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { cardNumber } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openWorld, type World } from './canary/world.ts';
import { testRefusals } from './refusals/at-entrances.ts';
import { entrances, type Entry } from './refusals/entrances.ts';
import { kinds, newCaller, refuseIn } from './refusals/kinds.ts';

let world: World;
beforeAll(async () => {
  world = await openWorld();
  refuseIn(world);
}, 120_000);
afterAll(() => world.close());

testRefusals(() => world, kinds, entrances);

describe('the log entry of a refused export is like that of a refused request', () => {
  const keys = ['a regenerated key', 'a deleted application', 'an expired application'] as const;
  let directory: string;
  let tenantId: string;
  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'token-vault-refusals-'));
    const key = world.keys.management;
    tenantId = (await world.clientWithoutKey.expect<{ id: string }>(200, 'GET', '/tenants/self', { key }))
      .body.id;
    await world.command('transfer', 'keygen', path.join(directory, 'key'));
  });
  afterAll(() => rm(directory, { recursive: true }));

  /** The newest log entries of this kind: of the export, and of the same refusal over HTTP before it. */
  async function toldOf(operation: string, key: string | null): Promise<Entry[]> {
    await world.clientWithoutKey.request('GET', `/tokens/${cardNumber()}`, { key });
    const files = ['--recipient', path.join(directory, 'key.pub'), '--to', path.join(directory, 'out')];
    const { code } = await world.command('export', tenantId, ...files, '--application', key ?? '');
    expect(code).toBe(1);
    const entries = `/logs?size=2&operation=${operation}`;
    const options = { key: world.keys.management };
    return (await world.clientWithoutKey.expect<{ data: Entry[] }>(200, 'GET', entries, options)).body.data;
  }
  const withoutRequest = (entry: Entry | undefined) => {
    const { actor_id, actor_type, entity_type, entity_id, operation, message, transform } = entry ?? {};
    return { actor_id, actor_type, entity_type, entity_id, operation, message, transform };
  };

  it.each(keys)('by %s', async (name) => {
    const [byCommand, overHttp] = await toldOf('authenticate', world.keys[name]);
    expect([byCommand, overHttp]).toMatchObject([{ request: 'export' }, { request: 'getToken' }]);
    expect(withoutRequest(byCommand)).toEqual(withoutRequest(overHttp));
  });

  it('by an application that may read no token', async () => {
    const { key } = await newCaller({ permissions: ['token:create'] });
    const [byCommand, overHttp] = await toldOf('denied', key);
    expect([byCommand, overHttp]).toMatchObject([{ request: 'export' }, { request: 'getToken' }]);
    expect(withoutRequest(byCommand)).toEqual(withoutRequest(overHttp));
  });
});

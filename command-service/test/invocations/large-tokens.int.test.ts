import type { AccessRule } from '@token-vault/contracts';
import { createRequestContext } from '@token-vault/operations';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createTokenUse } from '../../src/index.ts';
import { openVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
beforeAll(async () => {
  vault = await openVault();
});
beforeEach(async () => {
  await vault.newTenant();
});
afterAll(() => vault.close());

const kibibyte = 1024;
const itself = async <Tokens>(tokens: Tokens): Promise<Tokens> => tokens;

async function create(count: number, bytes: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, index) => `large-${index}`);
  for (const id of ids) await vault.create({ id, type: 'token', data: 'x'.repeat(bytes) });
  return ids;
}

function tokenUse() {
  let reads = 0;
  const store = {
    ...vault.log,
    readStream: (...read: Parameters<typeof vault.log.readStream>) => {
      reads += 1;
      return vault.log.readStream(...read);
    },
  };
  const { keyRing, clock, principal } = vault;
  const context = createRequestContext({ principal, traceId: 'use', now: clock.now() });
  return { use: createTokenUse({ store, keyRing, clock }), context, reads: () => reads };
}

const referencesTo = (ids: readonly string[]) => ({
  tokens: new Map(ids.map((id, index) => [id, `args[${index}]`])),
  ambiguous: new Map<string, string>(),
  hasFilters: false,
});

it('tokens with 4 MiB of data together are opened, each with its data', async () => {
  const ids = await create(8, 500 * kibibyte);
  const { use, context } = tokenUse();
  const opened = await (await use.take(referencesTo(ids), context, itself)).made;
  expect([...opened.keys()].sort()).toEqual(ids);
  expect(opened.get('large-7')).toMatchObject({
    data: 'x'.repeat(500 * kibibyte),
    token: { id: 'large-7', type: 'token' },
  });
});

it('tokens of a client that has gone are not opened', async () => {
  const ids = await create(1, 100 * kibibyte);
  const { use } = tokenUse();
  const gone = new Error('the client has gone');
  const signal = AbortSignal.abort(gone);
  const { principal, clock } = vault;
  const context = createRequestContext({ principal, traceId: 'use', now: clock.now(), signal });
  const { made } = await use.take(referencesTo(ids), context, itself);
  await expect(made).rejects.toBe(gone);
});

it('more than that is refused before all tokens are read: a request of 5 KB must not open 50 MiB', async () => {
  const ids = await create(27, 170 * kibibyte);
  const { use, context, reads } = tokenUse();
  const refusal = { errors: { 'args.24': ['names tokens that have more than 4 MiB of data together'] } };
  await expect(use.take(referencesTo(ids), context, itself)).rejects.toMatchObject(refusal);
  expect(reads()).toBeLessThanOrEqual(25);
  await expect(use.check(referencesTo(ids), context)).rejects.toMatchObject(refusal);
  await expect(use.open(ids, context, itself)).rejects.toMatchObject({
    errors: { args: [expect.any(String)] },
  });
});

it('the size of a token that the caller may not use changes no answer', async () => {
  const ids = await create(8, 520_000);
  const { use, context } = tokenUse();
  await vault.create({
    id: 'hidden',
    type: 'token',
    data: 'x'.repeat(500 * kibibyte),
    containers: ['/secret/'],
  });
  const mine: AccessRule = {
    priority: 1,
    container: '/general/',
    transform: 'reveal',
    permissions: ['token:use'],
  };
  const caller = { ...context.principal, permissions: [], rules: [mine] };
  const limited = createRequestContext({ principal: caller, traceId: 'use', now: vault.clock.now() });
  await expect(use.take(referencesTo(ids), limited, itself)).resolves.toBeDefined();
  const refusal = { code: 'forbidden', entity: { id: 'hidden' } };
  for (const named of [
    [...ids, 'hidden'],
    ['hidden', ...ids],
  ]) {
    await expect(use.take(referencesTo(named), limited, itself)).rejects.toMatchObject(refusal);
    await expect(use.check(referencesTo(named), limited)).rejects.toMatchObject(refusal);
  }
});

describe('tokens that are large together only', () => {
  /** A use of the tokens, whose data is held until `end`. */
  async function begin(ids: readonly string[], signal?: AbortSignal) {
    const { keyRing, clock, principal, log: store } = vault;
    const begun = Promise.withResolvers<'open' | 'waits'>();
    const over = Promise.withResolvers<void>();
    const context = createRequestContext({
      principal,
      traceId: 'use',
      now: clock.now(),
      ...(signal && { signal }),
      outOfTurn: (wait) => (begun.resolve('waits'), wait()),
    });
    const taken = createTokenUse({ store, keyRing, clock }).take(referencesTo(ids), context, (tokens) => {
      begun.resolve('open');
      return over.promise.then(() => tokens.size);
    });
    taken.catch(() => undefined);
    return { taken, begun: await begun.promise, end: () => over.resolve() };
  }

  it('are open for two requests of an application at a time, until their data is used', async () => {
    const ids = await create(3, 6 * kibibyte);
    const [first, second] = [await begin(ids), await begin(ids)];
    const client = new AbortController();
    const [leaving, third] = [await begin(ids, client.signal), await begin(ids)];
    const begun = [first, second, leaving, third].map((each) => each.begun);
    expect(begun).toEqual(['open', 'open', 'waits', 'waits']);
    const gone = new Error('the client has gone');
    client.abort(gone);
    await expect(leaving.taken).rejects.toBe(gone);
    first.end();
    third.end();
    expect(await (await third.taken).made).toBe(3);
    const fourth = await begin(ids);
    expect(fourth.begun).toBe('open');
    second.end();
    fourth.end();
    await Promise.all([second, fourth].map(async ({ taken }) => (await taken).made));
  });

  it('do not hold up requests whose tokens are small together', async () => {
    const ids = await create(3, 6 * kibibyte);
    const uses = [await begin(ids), await begin(ids), await begin(ids.slice(0, 2))];
    expect(uses.map(({ begun }) => begun)).toEqual(['open', 'open', 'open']);
    for (const { end } of uses) end();
    await Promise.all(uses.map(async ({ taken }) => (await taken).made));
  });
});

import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { expect, it } from 'vitest';
import { createTokenReplay } from '../../src/index.ts';
import { createTokensSinceFinder } from '../../src/tokens/find.ts';
import { noActor, useVault, type TestVault } from './vault.ts';

const minute = 60 * 1000;
let vault: TestVault;
useVault((opened) => (vault = opened));

const create = (container: string, transaction?: string) =>
  vault.create({ type: 'token', data: 'x', id: 'one', containers: [container] }, { transaction });

/** The containers of the tokens that had the id since the moment, the newest first. */
async function containersSince(since: Date, store = vault.log): Promise<string[]> {
  const { keyRing, clock, principal } = vault;
  const context = createRequestContext({ principal, traceId: 'trace', now: clock.now() });
  const found = await createTokensSinceFinder({ store, keyRing, clock })('one', since, context);
  return found.flatMap(({ content }) => content.containers);
}

it('a deleted token is found in its last state', async () => {
  await create('/old/');
  await vault.update('one', { containers: ['/moved/'] });
  const since = vault.clock.now();
  await vault.remove('one');
  expect(await containersSince(since)).toEqual(['/moved/']);
});

it('all tokens that had the id since are found, also several', async () => {
  const since = vault.clock.now();
  for (const container of ['/a/', '/b/', '/c/']) {
    vault.clock.advance(minute);
    await create(container);
    if (container !== '/c/') await vault.remove('one');
  }
  expect(await containersSince(since)).toEqual(['/c/', '/b/', '/a/']);
});

it('a token that replaced another one in a transaction counts from its commit, not from its creation', async () => {
  await create('/old/');
  vault.clock.advance(minute);
  const transaction = await vault.begin();
  await vault.remove('one', { transaction });
  await create('/mine/', transaction);
  vault.clock.advance(50 * minute);
  const since = vault.clock.now();
  expect(await containersSince(since)).toEqual(['/old/']);
  await vault.end('commit', transaction);
  expect(await containersSince(since)).toEqual(['/mine/', '/old/']);
});

it('an answer that may show either of two tokens of one id is not kept', async () => {
  const factsOf = async () => {
    const { log: store, keyRing, clock, principal } = vault;
    const replay = createTokenReplay({
      store,
      keyRing,
      clock,
      expressions: createExpressions(createInlineWorkers()),
      audit: createAuditTrail(store),
      findActor: noActor,
    });
    const context = createRequestContext({ principal, traceId: 'trace', now: clock.now() });
    return replay.facts(['one'], context);
  };
  await create('/old/');
  const createdAt = vault.clock.now().toISOString();
  expect(await factsOf()).toEqual([{ createdAt, cvcEndsAt: undefined }]);
  vault.clock.advance(minute);
  const transaction = await vault.begin();
  await vault.remove('one', { transaction });
  await create('/mine/', transaction);
  expect(await factsOf()).toEqual([{ createdAt, cvcEndsAt: undefined }]);
  vault.clock.advance(50 * minute);
  await vault.end('commit', transaction);
  expect(await factsOf()).toEqual([undefined]);
});

it('a token that was deleted or had expired before is not found', async () => {
  await create('/old/');
  vault.clock.advance(minute);
  await vault.remove('one');
  await vault.create({
    type: 'token',
    data: 'x',
    id: 'one',
    containers: ['/expired/'],
    expires_at: new Date(vault.clock.now().getTime() + minute).toISOString(),
  });
  vault.clock.advance(3 * minute);
  expect(await containersSince(vault.clock.now())).toEqual([]);
  await create('/mine/');
  expect(await containersSince(vault.clock.now())).toEqual(['/mine/']);
});

it('a token that was deleted in a transaction is found since before its commit', async () => {
  await create('/old/');
  const transaction = await vault.begin();
  await vault.remove('one', { transaction });
  vault.clock.advance(50 * minute);
  const since = vault.clock.now();
  vault.clock.advance(minute);
  await vault.end('commit', transaction);
  expect(await containersSince(since)).toEqual(['/old/']);
});

it('an expiry that a transaction sets counts from its commit', async () => {
  await create('/old/');
  const expires_at = new Date(vault.clock.now().getTime() + minute).toISOString();
  const transaction = await vault.begin();
  await vault.update('one', { containers: ['/moved/'], expires_at }, { transaction });
  vault.clock.advance(5 * minute);
  const since = vault.clock.now();
  expect(await containersSince(since)).toEqual(['/old/']);
  await vault.end('commit', transaction);
  expect(await containersSince(since)).toEqual(['/moved/']);
});

it('a token that was made again in a transaction with a short life does not hide the earlier one', async () => {
  await create('/old/');
  vault.clock.advance(minute);
  const expires_at = new Date(vault.clock.now().getTime() + minute).toISOString();
  const transaction = await vault.begin();
  await vault.remove('one', { transaction });
  const body = { type: 'token', data: 'x', id: 'one', containers: ['/mine/'], expires_at } as const;
  await vault.create(body, { transaction });
  vault.clock.advance(5 * minute);
  const since = vault.clock.now();
  await vault.end('commit', transaction);
  expect(await containersSince(since)).toEqual(['/mine/', '/old/']);
});

it('a token is found although its end was given an earlier time in the log, also when its id is used again', async () => {
  await create('/old/');
  vault.clock.advance(10 * minute);
  const since = vault.clock.now();
  vault.clock.advance(minute);
  await vault.remove('one');
  const store: typeof vault.log = {
    ...vault.log,
    async *readStream(...range) {
      for await (const event of vault.log.readStream(...range))
        yield event.type === 'TokenDeleted'
          ? { ...event, metadata: { ...event.metadata, occurred_at: '2029-12-31T00:00:00.000Z' } }
          : event;
    },
  };
  expect(await containersSince(since, store)).toEqual(['/old/']);
  await create('/mine/');
  expect(await containersSince(since, store)).toEqual(['/mine/', '/old/']);
});

it('tokens that ended before one that was there are not found', async () => {
  await create('/old/');
  await vault.remove('one');
  vault.clock.advance(minute);
  await create('/mine/');
  vault.clock.advance(5 * minute);
  expect(await containersSince(vault.clock.now())).toEqual(['/mine/']);
  vault.clock.advance(90 * minute);
  expect(await containersSince(vault.clock.now())).toEqual(['/mine/']);
});

it('a token with hundreds of versions is found by few readings', async () => {
  await create('/old/');
  await vault.remove('one');
  vault.clock.advance(minute);
  await create('/mine/');
  for (let version = 0; version < 300; version += 1)
    await vault.update('one', { metadata: { n: `${version}` } });
  let readings = 0;
  const store = Object.create(vault.log, {
    readStream: {
      value: (...asked: Parameters<typeof vault.log.readStream>) => {
        readings += 1;
        return vault.log.readStream(...asked);
      },
    },
  }) as typeof vault.log;
  const { keyRing, clock, principal } = vault;
  const context = createRequestContext({ principal, traceId: 'trace', now: clock.now() });
  const found = await createTokensSinceFinder({ store, keyRing, clock })(
    'one',
    new Date(clock.now().getTime() - 2 * minute),
    context,
  );
  expect(found.map(({ content }) => content.containers)).toEqual([['/mine/'], ['/old/']]);
  expect(readings).toBeLessThan(40);
});

it('a decision that is made again reads only the newer versions of a token, of ids that many tokens had too', async () => {
  const since = vault.clock.now();
  for (let count = 0; count < 20; count += 1) {
    vault.clock.advance(1_000);
    await create(`/c${count}/`);
    if (count < 19) await vault.remove('one');
  }
  const { keyRing, clock, principal } = vault;
  const { store, eventsRead } = vault.faults;
  const find = createTokensSinceFinder({ store, keyRing, clock });
  const context = createRequestContext({ principal, traceId: 'trace', now: clock.now() });
  const read: number[] = [];
  const found = await store.consistently(async () => {
    const before = eventsRead.get('token') ?? 0;
    const tokens = await find('one', since, context);
    read.push((eventsRead.get('token') ?? 0) - before);
    if (read.length === 1) await vault.update('one', { containers: ['/moved/'] });
    return tokens;
  });
  expect(found.map(({ content }) => content.containers[0])).toEqual([
    '/moved/',
    ...Array.from({ length: 19 }, (_, index) => `/c${18 - index}/`),
  ]);
  expect(found.map(({ createdAt }) => createdAt)).toEqual(
    (await find('one', since, context)).map(({ createdAt }) => createdAt),
  );
  const [first = 0, second] = read;
  expect([first > 20, second]).toEqual([true, 1]);
});

it('a decision that is made again finds the token that took the id meanwhile, and the one before it in its last state', async () => {
  const since = vault.clock.now();
  await create('/old/');
  const { log: store, keyRing, clock, principal } = vault;
  const find = createTokensSinceFinder({ store, keyRing, clock });
  const context = createRequestContext({ principal, traceId: 'trace', now: clock.now() });
  let attempts = 0;
  const found = await store.consistently(async () => {
    const tokens = await find('one', since, context);
    attempts += 1;
    if (attempts === 1) {
      await vault.update('one', { containers: ['/last/'] });
      await vault.remove('one');
      vault.clock.advance(1_000);
      await create('/new/');
    }
    return tokens;
  });
  expect(found.flatMap(({ content }) => content.containers)).toEqual(['/new/', '/last/']);
});

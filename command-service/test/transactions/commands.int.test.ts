import { randomUUID } from 'node:crypto';
import {
  newEvent,
  streams,
  TransactionCommitted,
  TransactionOpened,
  TransactionRolledBack,
} from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { card, refusal, useVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const hour = 60 * 60 * 1000;
const locked = refusal('token_locked');
const notOpen = refusal('transaction_not_open');
const create = (id: string, transaction?: string) =>
  vault.create({ type: 'token', data: id, id }, { transaction });
const other = () => ({
  ...vault.principal,
  actor: { kind: 'application', id: 'other' } as const,
  applicationId: 'other',
});

/** Runs `work` just before the next append to a token's stream. */
function justBeforeTheAppend(work: () => Promise<unknown>): void {
  vault.faults.interpose = async (stream) => {
    if (!stream.startsWith('token-')) return;
    vault.faults.interpose = async () => undefined;
    await work();
  };
}

describe('a second end of a transaction, added to the log in the database', () => {
  const opening = { expires_at: '2030-01-01T01:00:00.000Z' };
  const another = randomUUID();
  const asWritten = (is: string) => ({ data: 'x', content: { metadata: { is } } });

  /** Updates a token in a transaction, ends that, and adds events to its stream. `named`: the transaction that the events name, by default the same. */
  async function addAfter(
    how: 'commit' | 'rollback',
    definition: typeof TransactionCommitted | typeof TransactionRolledBack,
    { isReopened = false, named }: { isReopened?: boolean; named?: string } = {},
  ) {
    await vault.create({ type: 'token', data: 'x', id: 'forged', metadata: { is: 'before' } });
    const transaction = await vault.begin();
    await vault.update('forged', { metadata: { is: 'enlisted' } }, { transaction });
    await vault.end(how, transaction);
    const stream = streams.transaction(vault.principal.tenant.id, transaction);
    const last = (await vault.events(stream)).at(-1);
    if (!last) throw new Error('there is no end');
    const options = { id: randomUUID(), metadata: last.metadata };
    const identity = { transaction_id: named ?? transaction };
    const opened = newEvent(TransactionOpened, { ...identity, ...opening }, { ...options, id: randomUUID() });
    const forged = newEvent(definition, identity, options);
    await vault.log.append(stream, isReopened ? [opened, forged] : [forged], 'exists');
    await vault.settle(transaction);
  }

  it.each([
    ['commit', TransactionRolledBack, 'enlisted', false],
    ['rollback', TransactionCommitted, 'before', false],
    ['commit', TransactionRolledBack, 'enlisted', true],
    ['rollback', TransactionCommitted, 'before', true],
  ] as const)(
    'changes nothing after a %s (%o, %s, opened again: %s)',
    async (how, definition, is, isReopened) => {
      await addAfter(how, definition, { isReopened });
      expect(await vault.stored('forged')).toMatchObject(asWritten(is));
    },
  );

  it('has the transaction refused when it names another one', async () => {
    const altered = { code: 'record_altered' };
    await expect(addAfter('rollback', TransactionCommitted, { named: another })).rejects.toMatchObject(
      altered,
    );
    await expect(vault.stored('forged')).rejects.toMatchObject(altered);
    vault.restart();
    await expect(vault.update('forged', { data: 'y' })).rejects.toMatchObject(altered);
  });
});

describe('a transaction', () => {
  it('is open for an hour', async () => {
    const { body } = await vault.call('createTransaction', {});
    expect(body).toEqual({
      id: expect.any(String) as unknown,
      created_at: '2030-01-01T00:00:00.000Z',
      created_by: 'app',
      expires_at: '2030-01-01T01:00:00.000Z',
    });
  });

  it('repeated under its idempotency key is the same one, with its own times', async () => {
    const first = await vault.call('createTransaction', {}, { idempotencyKey: 'k' });
    vault.clock.advance(1000);
    expect((await vault.call('createTransaction', {}, { idempotencyKey: 'k' })).body).toEqual(first.body);
  });

  it('shows no writes until its commit, then all of them', async () => {
    await create('old');
    const transaction = await vault.begin();
    await create('new', transaction);
    await vault.update('old', { data: 'changed' }, { transaction });
    expect([await vault.stored('new'), (await vault.stored('old'))?.data]).toEqual([undefined, 'old']);
    expect((await vault.update('new', { data: 'again' }, { transaction })).data).toBe('again');
    await vault.end('commit', transaction);
    expect([(await vault.stored('new'))?.data, (await vault.stored('old'))?.data]).toEqual([
      'again',
      'changed',
    ]);
  });

  it('is not committed by a caller whose rights have changed since it wrote', async () => {
    await create('moved');
    const transaction = await vault.begin();
    await vault.update('moved', { data: 'changed' }, { transaction });
    const narrowed = { ...vault.principal, permissions: [], rules: [] };
    const commit = vault.end('commit', transaction, { as: narrowed });
    await expect(commit).rejects.toMatchObject(refusal('forbidden'));
    await vault.end('rollback', transaction, { as: narrowed });
    expect((await vault.stored('moved'))?.data).toBe('moved');
  });

  it('is committed after an expiry that only the transaction itself has set', async () => {
    await create('ending');
    const transaction = await vault.begin();
    await vault.update('ending', { expires_at: '2030-01-01T00:00:01Z' }, { transaction });
    await vault.update('ending', { metadata: { a: 'b' } }, { transaction });
    vault.clock.advance(1000);
    await vault.end('commit', transaction);
    await expect(vault.update('ending', {})).rejects.toMatchObject(refusal('not_found'));
  });

  it('neither shows nor restores a token that expired meanwhile', async () => {
    await vault.create({ type: 'token', data: 'brief', id: 'brief', expires_at: '2030-01-01T00:00:01Z' });
    const transaction = await vault.begin();
    await vault.update('brief', { expires_at: '2031-01-01T00:00:00Z' }, { transaction });
    vault.clock.advance(1000);
    const expired = refusal('transaction_token_expired');
    await expect(vault.update('brief', {}, { transaction })).rejects.toMatchObject(expired);
    await expect(vault.end('commit', transaction)).rejects.toMatchObject(expired);
    await vault.end('rollback', transaction);
    expect(await vault.stored('brief')).toBeUndefined();
  });

  it('locks its tokens for other callers, and unlocks them at its end', async () => {
    await create('old');
    const [one, two] = [await vault.begin(), await vault.begin()];
    await vault.update('old', { metadata: { a: 'b' } }, { transaction: one });
    await create('new', one);
    await expect(vault.update('old', {})).rejects.toMatchObject(locked);
    await expect(vault.remove('old')).rejects.toMatchObject(locked);
    await expect(vault.remove('old', { transaction: two })).rejects.toMatchObject(locked);
    await expect(create('new')).rejects.toMatchObject(locked);
    await expect(create('new', two)).rejects.toMatchObject(locked);
    await expect(vault.update('new', {})).rejects.toMatchObject(refusal('not_found'));
    await vault.end('rollback', one);
    await create('new', two);
    await vault.remove('old');
  });

  it('belongs to its caller alone', async () => {
    await create('old');
    const transaction = await vault.begin();
    await create('new', transaction);
    const theirs = { as: other(), transaction };
    const absent = refusal('not_found');
    await expect(vault.create({ type: 'token', data: 1 }, theirs)).rejects.toMatchObject(absent);
    await expect(vault.update('new', {}, theirs)).rejects.toMatchObject(absent);
    await expect(vault.remove('old', theirs)).rejects.toMatchObject(absent);
    await expect(vault.tokenize([1, 2], theirs)).rejects.toMatchObject(absent);
    await expect(vault.end('commit', transaction, { as: other() })).rejects.toMatchObject(absent);
    await expect(vault.end('rollback', transaction, { as: other() })).rejects.toMatchObject(absent);
    expect(await vault.keys()).toEqual(['new data', 'old data']);
  });

  it('that is unknown or ended accepts no writes', async () => {
    const unknown = '00000000-0000-4000-8000-00000000dead';
    await expect(create('tok', unknown)).rejects.toMatchObject(refusal('not_found'));
    for (const how of ['commit', 'rollback'] as const) {
      const transaction = await vault.begin();
      await vault.end(how, transaction);
      await expect(create('tok', transaction)).rejects.toMatchObject(notOpen);
      await expect(vault.end('commit', transaction)).rejects.toMatchObject(notOpen);
    }
    expect(await vault.keys()).toEqual([]);
  });

  it('of a session is the session’s own', async () => {
    const as = { ...vault.principal, actor: { kind: 'session', id: 'session' } as const };
    const transaction = await vault.begin({ as });
    await vault.create({ type: 'token', data: 1, id: 'tok' }, { as, transaction });
    await expect(vault.end('commit', transaction)).rejects.toMatchObject(refusal('not_found'));
    await vault.end('commit', transaction, { as });
    expect(await vault.live()).toEqual(['tok']);
  });

  it('is rolled back after its hour, and its locks end', async () => {
    await create('old');
    const transaction = await vault.begin();
    await vault.remove('old', { transaction });
    vault.clock.advance(hour - 1);
    await expect(vault.remove('old')).rejects.toMatchObject(locked);
    vault.clock.advance(1);
    await expect(vault.end('commit', transaction)).rejects.toMatchObject(notOpen);
    await vault.update('old', { data: 'kept' });
    expect((await vault.stored('old'))?.data).toBe('kept');
    const events = await vault.events(streams.transaction(vault.principal.tenant.id, transaction));
    expect(events.at(-1)?.type).toBe('TransactionExpired');
  });
});

describe('a write that overlaps the end of its transaction', () => {
  it.each(['commit', 'rollback'] as const)(
    'does not count when the %s comes first, and leaves no key',
    async (how) => {
      const transaction = await vault.begin();
      justBeforeTheAppend(() => vault.end(how, transaction));
      await expect(create('late', transaction)).rejects.toMatchObject(notOpen);
      expect(await vault.live()).toEqual([]);
      expect(await vault.keys()).toEqual([]);
      await create('late');
    },
  );

  it.each(['update', 'remove'] as const)('does not count as an %s either', async (what) => {
    await vault.create({ type: 'card', data: { number: card }, id: 'tok' });
    const transaction = await vault.begin();
    justBeforeTheAppend(() => vault.end('commit', transaction));
    const write =
      what === 'update'
        ? vault.update('tok', { data: { cvc: '123' } }, { transaction })
        : vault.remove('tok', { transaction });
    await expect(write).rejects.toMatchObject(notOpen);
    expect((await vault.stored('tok'))?.data).toEqual({ number: card });
    expect(await vault.keys()).toEqual(['tok data']);
  });

  it('does not count when its time is over', async () => {
    const transaction = await vault.begin();
    justBeforeTheAppend(async () => vault.clock.advance(hour));
    await expect(create('late', transaction)).rejects.toMatchObject(notOpen);
    expect(await vault.live()).toEqual([]);
    expect(await vault.keys()).toEqual([]);
  });

  it('of another transaction is refused by the earlier lock', async () => {
    await create('tok');
    const [one, two] = [await vault.begin(), await vault.begin()];
    justBeforeTheAppend(() => vault.remove('tok', { transaction: two }));
    const update = vault.update('tok', { metadata: { a: 'b' } }, { transaction: one });
    await expect(update).rejects.toMatchObject(locked);
  });
});

describe('many at once', () => {
  it('get one lock', async () => {
    await create('tok');
    const transactions = await Promise.all(Array.from({ length: 8 }, () => vault.begin()));
    const writes = await Promise.allSettled(
      transactions.map((transaction, n) => vault.update('tok', { data: n }, { transaction })),
    );
    const winners = writes.flatMap(({ status }, n) => (status === 'fulfilled' ? [n] : []));
    expect(winners).toHaveLength(1);
    await Promise.all(transactions.map((transaction) => vault.end('commit', transaction)));
    expect((await vault.stored('tok'))?.data).toBe(winners[0]);
  });

  it('end a transaction once', async () => {
    const transaction = await vault.begin();
    await create('tok', transaction);
    const how = (n: number) => (n % 2 === 0 ? 'commit' : 'rollback');
    const ends = await Promise.allSettled(
      Array.from({ length: 8 }, (_, n) => vault.end(how(n), transaction)),
    );
    const winners = ends.flatMap(({ status }, n) => (status === 'fulfilled' ? [how(n)] : []));
    expect(winners).toHaveLength(1);
    expect(await vault.live()).toEqual(winners[0] === 'commit' ? ['tok'] : []);
  });

  it('write in one transaction while it is committed: each write that was answered with success is stored', async () => {
    const transaction = await vault.begin();
    const ids = Array.from({ length: 12 }, (_, n) => `tok-${n}`);
    const writes = ids.map((id) => create(id, transaction));
    const [results] = await Promise.all([
      Promise.allSettled(writes),
      vault.end('commit', transaction).catch(() => undefined),
    ]);
    await vault.end('commit', transaction).catch(() => undefined);
    const done = ids.filter((_id, n) => results[n]?.status === 'fulfilled').sort();
    expect(await vault.live()).toEqual(done);
    expect(await vault.keys()).toEqual(done.map((id) => `${id} data`));
  });
});

import { fieldsOf } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { streams } from '@token-vault/contracts';
import { describe, expect, it, vi } from 'vitest';
import { anyone, card, refusal, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const body = { type: 'card', data: { number: card }, deduplicate_token: true };
const status = async (given: object, options?: Parameters<TestVault['call']>[2]) =>
  (await vault.call('createToken', { body: given }, options)).status;

describe('a deduplicated create', () => {
  it('gives the existing token unchanged, with 200', async () => {
    expect(await status(body)).toBe(201);
    const [id] = await vault.live();
    const answer = await vault.call('createToken', {
      body: { ...body, data: { number: card, expiration_month: 3 }, metadata: { a: 'b' } },
    });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({ id, data: { number: card } });
    expect(answer.body).not.toMatchObject({ metadata: { a: 'b' } });
    expect(await vault.live()).toEqual([id]);
    expect(await vault.keys()).toEqual([`${id} data`]);
  });

  it('compares type and fingerprint', async () => {
    await vault.create(body);
    expect(await status({ ...body, type: 'card_number', data: card })).toBe(201);
    expect(await status({ ...body, data: { number: '5555555555554444' } })).toBe(201);
    expect(await status({ ...body, fingerprint_expression: '{{ data | stringify }}' })).toBe(201);
  });

  it('finds a token that was created without deduplication, if the token has a fingerprint', async () => {
    await vault.create({ type: 'card', data: { number: card } });
    expect(await status(body)).toBe(201);
    await vault.newTenant({ fingerprint_tokens: 'true' });
    await vault.create({ type: 'card', data: { number: card } });
    expect(await status(body)).toBe(200);
  });

  it('follows the setting of the tenant unless the request says otherwise', async () => {
    await vault.newTenant({ deduplicate_tokens: 'true' });
    const silent = { type: 'card', data: { number: card } };
    expect([await status(silent), await status(silent)]).toEqual([201, 200]);
    expect(await status({ ...silent, deduplicate_token: false })).toBe(201);
    expect(await status({ ...silent, deduplicate_token: null })).toBe(200);
  });

  it('does not find deleted or expired tokens', async () => {
    const first = await vault.create({ ...body, expires_at: '2030-01-01T00:00:01Z' });
    vault.clock.advance(1000);
    const second = await vault.create(body);
    expect(second.id).not.toBe(first.id);
    await vault.remove(second.id);
    const third = await vault.create(body);
    expect(await vault.live()).toEqual([third.id]);
  });

  it('costs no more when equal tokens were created and deleted before', async () => {
    for (let n = 0; n < 5; n += 1) await vault.remove((await vault.create(body)).id);
    const { fingerprint = '' } = await vault.create(body);
    const events = await vault.events(streams.fingerprint(vault.principal.tenant.id, fingerprint));
    const claimants = new Set<unknown>();
    for (const event of events)
      if (event.type !== 'FingerprintClaimed') claimants.delete(fieldsOf(event).token_id);
      else {
        for (const released of event.data.released_token_ids ?? []) claimants.delete(released);
        claimants.add(event.data.token_id);
      }
    expect(claimants.size).toBe(1);
  });

  it('shows a caller without token:read only the fields that name the token', async () => {
    const token = await vault.create({ ...body, metadata: { a: 'b' } });
    const rules = anyone().rules.map((rule) => ({ ...rule, permissions: ['token:create' as const] }));
    const answer = await vault.create(body, { as: { ...vault.principal, rules } });
    expect(answer).toEqual({
      id: token.id,
      type: 'card',
      tenant_id: vault.principal.tenant.id,
      fingerprint: token.fingerprint,
      containers: ['/pci/high/'],
    });
  });

  it('records the read before it shows the stored token', async () => {
    await vault.create(body);
    vault.faults.decide = (stream) => (stream.startsWith('access-') ? 'before' : undefined);
    await expect(vault.create(body)).rejects.toThrow('cut off');
    vault.faults.decide = () => undefined;
    await vault.create(body);
    expect((await vault.events()).filter(({ type }) => type === 'TokensRead')).toHaveLength(1);
  });

  it('under a literal id that is taken by the equal token gives that token', async () => {
    await vault.create({ ...body, id: 'mine' });
    expect(await status({ ...body, id: 'mine' })).toBe(200);
    await expect(status({ ...body, id: 'mine', data: { number: '5555555555554444' } })).rejects.toMatchObject(
      refusal('token_id_taken'),
    );
  });
});

describe('equal creates at the same time', () => {
  it.each([
    ['drawn ids', () => body],
    ['ids of their own', (n: number) => ({ ...body, id: `token-${n}` })],
    ['one id', () => ({ ...body, id: 'mine' })],
  ])('give one token to fifty: %s', async (_what, given) => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => vault.call('createToken', { body: given(n) })),
    );
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1);
    expect(new Set(answers.map((answer) => (answer.body as { id: string }).id)).size).toBe(1);
    expect(await vault.live()).toHaveLength(1);
    expect(await vault.keys()).toHaveLength(1);
  });

  it('give one token when the first writer crashed between claim and create', async () => {
    vault.faults.decide = (stream) => (stream.startsWith('token-') ? 'before' : undefined);
    await expect(vault.create({ ...body, id: 'crashed' })).rejects.toThrow('cut off');
    vault.faults.decide = () => undefined;
    vault.restart();
    const answers = await Promise.all(Array.from({ length: 20 }, () => vault.create(body)));
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    expect(await vault.live()).toEqual([answers[0]?.id]);
    expect((await vault.create({ ...body, deduplicate_token: false, id: 'crashed' })).id).toBe('crashed');
  });

  it.each(['create', 'update'] as const)('refuse a slow %s after it was given up', async (kind) => {
    const id = 'slow';
    if (kind === 'update') await vault.create({ type: 'card', data: { number: '5555555555554444' }, id });
    let isFirst = true;
    vault.faults.interpose = async (stream) => {
      if (!isFirst || !stream.startsWith('token-')) return;
      isFirst = false;
      // The slow writer has claimed and has not appended yet. The other writer waits until it counts as dead.
      await vault.create({ ...body, id: 'fast' });
    };
    const answer =
      kind === 'create'
        ? await vault.create({ ...body, id })
        : await vault.update(id, { data: { number: card }, deduplicate_token: true });
    expect(answer.id).toBe('fast');
    const live = await Promise.all(
      (await vault.live()).map(async (each) => (await vault.stored(each))?.data),
    );
    expect(live.filter((data) => JSON.stringify(data) === JSON.stringify({ number: card }))).toHaveLength(1);
  });

  it('give one token although one with that id is deleted and made again meanwhile', async () => {
    await vault.create({ ...body, id: 'mine' });
    const work = Array.from({ length: 30 }, (_, n) =>
      n % 3 === 0
        ? vault.remove('mine').catch(() => undefined)
        : vault.create({ ...body, id: n % 2 === 0 ? 'mine' : `id-${n}` }),
    );
    await Promise.all(work);
    await vault.create(body);
    expect(await vault.live()).toHaveLength(1);
    expect(await vault.keys()).toHaveLength(1);
  });
});

describe('deduplication in transactions', () => {
  it('sees committed tokens and its own, not those of other open ones', async () => {
    const [one, two] = [await vault.begin(), await vault.begin()];
    const first = await vault.create(body, { transaction: one });
    expect((await vault.create(body, { transaction: one })).id).toBe(first.id);
    const second = await vault.create(body, { transaction: two });
    expect(second.id).not.toBe(first.id);
    await vault.end('rollback', one);
    await vault.end('commit', two);
    expect((await vault.create(body)).id).toBe(second.id);
  });

  it('reads an open one a few times, however many tokens it holds of the value, and sees them with its commit', async () => {
    const transaction = await vault.begin();
    const equal = { ...body, deduplicate_token: false, fingerprint_expression: '{{ data.number }}' };
    const many = Array.from({ length: 60 }, () => equal);
    await vault.call('createTokens', { body: { tokens: many } }, { transaction });
    const read = vi.spyOn(vault.faults.store, 'readStream');
    const own = await vault.create(body);
    const ofTransaction = read.mock.calls.filter(([stream]) => stream.startsWith('transaction-'));
    read.mockRestore();
    expect(ofTransaction.length).toBeLessThan(6);
    await vault.remove(own.id);
    await vault.end('commit', transaction);
    expect(await status(body)).toBe(200);
  });

  it('finds tokens again that a rolled back transaction had deleted', async () => {
    const first = await vault.create(body);
    const transaction = await vault.begin();
    await vault.remove(first.id, { transaction });
    const second = await vault.create(body, { transaction });
    expect(second.id).not.toBe(first.id);
    await vault.end('rollback', transaction);
    expect((await vault.create(body)).id).toBe(first.id);
    expect(await vault.live()).toEqual([first.id]);
  });

  it('keeps the record of a read that was made in one, even if it is rolled back', async () => {
    await vault.create(body);
    const transaction = await vault.begin();
    await vault.create(body, { transaction });
    await vault.end('rollback', transaction);
    const reads = (await vault.events()).filter(({ type }) => type === 'TokensRead');
    expect(reads.map(({ metadata }) => metadata.transaction_id)).toEqual([undefined]);
  });

  it('shows nothing of a transaction to other callers', async () => {
    const transaction = await vault.begin();
    await vault.create(body, { transaction });
    const other = {
      ...vault.principal,
      actor: { kind: 'application', id: 'other' } as const,
      applicationId: 'other',
    };
    await expect(vault.create(body, { transaction, as: other })).rejects.toMatchObject(refusal('not_found'));
  });
});

describe('deduplicated writes that find no equal token', () => {
  let number = 0;
  const unique = () => ({ type: 'token', data: `value ${(number += 1)}`, deduplicate_token: true });
  const limitedTo = (misses: string | undefined, more: Record<string, string> = {}): { as: Principal } => {
    const settings = { ...(misses !== undefined && { data_misses_per_minute: misses }), ...more };
    const { tenant } = vault.principal;
    const permissions = ['token:create', 'token:update'] as const;
    return {
      as: {
        ...anyone({ permissions, rules: [] }),
        tenant: { ...tenant, settings },
        applicationId: randomUUID(),
      },
    };
  };

  it('are refused after a hundred in a minute', async () => {
    const options = limitedTo(undefined);
    await vault.tokenize(Array.from({ length: 100 }, unique), options);
    await expect(vault.create(unique(), options)).rejects.toMatchObject({ code: 'rate_limited' });
    await vault.create({ ...unique(), deduplicate_token: false }, options);
    await vault.create(unique(), limitedTo(undefined));
    vault.clock.advance(60_000);
    await vault.create(unique(), options);
  });

  it('store nothing of a tokenize request that would exceed the limit', async () => {
    const options = limitedTo('2');
    await expect(vault.tokenize([unique(), unique(), unique()], options)).rejects.toMatchObject({
      code: 'rate_limited',
    });
    expect(await vault.live()).toEqual([]);
    expect(await vault.keys()).toEqual([]);
  });

  it('count although the create fails, and for an update too', async () => {
    const options = limitedTo('2');
    await vault.create({ type: 'token', data: 'taken', id: 'tok' });
    await expect(vault.create({ ...unique(), id: 'tok' }, options)).rejects.toMatchObject(
      refusal('token_id_taken'),
    );
    await vault.update('tok', { data: unique().data, deduplicate_token: true }, options);
    await expect(vault.create(unique(), options)).rejects.toMatchObject({ code: 'rate_limited' });
    const probe = { data: unique().data, deduplicate_token: true };
    await expect(vault.update('tok', probe, options)).rejects.toMatchObject({ code: 'rate_limited' });
  });

  it('count for a patch without sight also when it brings the data that was there, and add as many events', async () => {
    const data = unique().data;
    await vault.create({ type: 'token', data, id: 'tok', deduplicate_token: true });
    const added = async (patch: object, options: { as: Principal }) => {
      const before = (await vault.events()).length;
      const code = await vault.update('tok', patch, options).then(
        () => 'done',
        (error: unknown) => (error as { code: string }).code,
      );
      return [code, (await vault.events()).length - before];
    };
    const options = limitedTo('1');
    const right = await added({ data }, options);
    expect(right[0]).toBe('done');
    expect(await added({ data }, options)).toEqual(['rate_limited', 0]);
    expect(await added({ data: unique().data }, options)).toEqual(['rate_limited', 0]);
    expect(await added({ data: unique().data }, limitedTo('1'))).toEqual(right);
  });

  it('add as many events whether a token had the data before or not', async () => {
    const [kept, gone] = [unique(), unique()];
    const added = async (body: object) => {
      const before = (await vault.events()).length;
      await vault.create(body, limitedTo(undefined));
      return (await vault.events()).length - before;
    };
    await vault.remove((await vault.create(gone)).id);
    expect(await added(gone)).toBe(await added(kept));
    expect(await status(gone, limitedTo(undefined))).toBe(200);
  });

  it('do not count when a token is found, nor for a caller that may see every token', async () => {
    const options = limitedTo('1');
    const same = unique();
    await vault.create(same);
    for (let n = 0; n < 3; n += 1) expect(await status(same, options)).toBe(200);
    const all = { as: { ...limitedTo('1').as, rules: anyone().rules } };
    for (let n = 0; n < 3; n += 1) expect(await status(unique(), all)).toBe(201);
  });

  it('count also when a token is found, where hits count', async () => {
    const options = limitedTo('2', { count_data_hits: 'true' });
    const same = unique();
    await vault.create(same);
    for (let n = 0; n < 2; n += 1) expect(await status(same, options)).toBe(200);
    await expect(vault.create(same, options)).rejects.toMatchObject({ code: 'rate_limited' });
    await vault.create({ ...same, deduplicate_token: false }, options);
  });
});

import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import type { Position } from '@token-vault/event-store';
import { waitUntil } from '@token-vault/test-support';
import { answerEntityOfToken } from '../src/index.ts';
import type { Answer } from '@token-vault/operations';
import { tenantId } from './principal.ts';
import { canary, handler, hourMs, requestOf, token, useAnswers } from './answers-setup.ts';

const setup = useAnswers();
const { clock, openAnswers } = setup;

describe('a stored answer', () => {
  const dump = async () => JSON.stringify((await setup.pool.query('select * from idempotency.answer')).rows);

  it('holds neither the key nor the data in clear', async () => {
    const { handle } = handler({ status: 201, body: { id: 'x', key: `key_pvt_${canary}` } });
    await setup.answers.run(requestOf(), handle);
    await setup.answers.run(requestOf({ path: '/other' }), handler().handle);
    const { rows } = await setup.pool.query<{ row: string }>(
      'select a::text as row from idempotency.answer a',
    );
    expect(rows).toHaveLength(2);
    expect(rows.map(({ row }) => row).join()).not.toContain(canary);
    expect(await dump()).not.toContain(canary);
  });

  it('holds no token: the present token is shown, and none when it has ended or another token has its id', async () => {
    const { handle, scopes } = handler();
    await setup.answers.run(requestOf(), handle);
    expect((await setup.pool.query('select from key_ring.data_key')).rowCount).toBe(0);
    const masked = token({ data: { number: 'masked' } });
    setup.living.set('tok_1', { createdAt: 'then', cvcEndsAt: undefined, token: masked });
    expect(await setup.answers.run(requestOf(), handle)).toMatchObject({ status: 201, body: masked });
    setup.living.set('tok_1', { createdAt: 'later', cvcEndsAt: undefined, token: masked });
    await expect(setup.answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    setup.living.clear();
    await expect(setup.answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    expect(scopes).toHaveLength(1);
  });

  const made = (): Answer => ({
    body: { raw: canary, tokens: [token({ id: 'tok_2' }), 'tok_9'], ['__proto__']: 1, body: 5 },
    headers: { 'x-told': canary },
    tokens: [
      { id: 'tok_1', by: 'use' },
      { id: 'tok_2', createdAt: 'then', at: ['tokens', 0], by: 'output' },
      { id: 'tok_9', by: 'seen' },
    ],
  });
  const liveAll = () => ['tok_1', 'tok_2', 'tok_9'].forEach((id) => setup.live({ id }));

  it('of many tokens is given back without them, its headers too, and holds nothing in clear', async () => {
    liveAll();
    const { handle } = handler(made());
    await setup.answers.run(requestOf(), handle);
    expect(await setup.answers.run(requestOf(), handle)).toEqual({
      endsAtMs: expect.any(Number) as number,
      body: { raw: canary, tokens: [null, 'tok_9'], ['__proto__']: 1, body: 5 },
      headers: { 'x-told': canary },
    });
    expect(await dump()).not.toContain(canary);
  });

  it.each(['tok_1', 'tok_2', 'tok_9'])(
    'does not open without the key of %s, which ends with it',
    async (id) => {
      liveAll();
      const { handle, scopes } = handler(made());
      await setup.answers.run(requestOf(), handle);
      await setup.keyRing.destroyKeysOfEntity(tenantId, answerEntityOfToken(id));
      await expect(setup.answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
      expect(scopes).toHaveLength(1);
    },
  );

  it('is not shown once a cvc that it contains is deleted', async () => {
    liveAll();
    setup.live({ id: 'tok_1', cvcEndsAt: '2030-01-01T00:40:00Z' });
    const { handle, scopes } = handler(made());
    await setup.answers.run(requestOf(), handle);
    clock.set('2030-01-01T00:39:59.999Z');
    expect(await setup.answers.run(requestOf(), handle)).toMatchObject({ body: { raw: canary } });
    clock.set('2030-01-01T00:40:00Z');
    await expect(setup.answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    expect(await setup.keyRing.destroyDue(clock.now(), 10)).toHaveLength(3);
    expect(scopes).toHaveLength(1);
  });

  it.each(['use', 'seen'] as const)(
    'ends with a cvc that was deleted before the answer was stored (%s)',
    async (by) => {
      liveAll();
      const cvcEndsAt = '2030-01-01T00:00:10Z';
      const tokens = [{ id: 'tok_1', by, cvcEndsAt }];
      const handle = async () => {
        clock.set('2030-01-01T00:00:11Z');
        return { ...made(), tokens };
      };
      await setup.answers.run(requestOf(), handle);
      await expect(setup.answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    },
  );

  it.each([
    ['a token of it has ended already', { ...made(), tokens: [{ id: 'gone', by: 'seen' as const }] }],
    ['it is not known of which tokens it was made', { ...made(), tokens: [], isUnrepeatable: true }],
  ])('is not kept when %s, and the request is not run again', async (_why, answer) => {
    const { handle, scopes } = handler(answer);
    await setup.answers.run(requestOf(), handle);
    await expect(setup.answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    expect(await dump()).not.toContain(canary);
    expect(scopes).toHaveLength(1);
  });

  it('is not kept when its status is that of a failure, which a reactor may choose', async () => {
    const { handle, scopes } = handler({ status: 402, headers: {}, body: { is: 'declined' } });
    await setup.answers.run(requestOf(), handle);
    expect(await setup.answers.run(requestOf(), handle)).toMatchObject({ status: 402 });
    expect(scopes).toHaveLength(2);
    expect(scopes[1]).not.toEqual(scopes[0]);
  });

  describe('whose row was changed by a writer of the database is refused', () => {
    const admin = { path: '/applications', key: 'of the administrator' };
    const refused = { code: 'record_altered' };

    it('when it is put into the row of another request', async () => {
      await setup.answers.run(
        requestOf(admin),
        handler({ body: { id: 'a2', key: `key_prv_${canary}` } }).handle,
      );
      await setup.answers.run(requestOf(), handler().handle);
      await setup.pool.query(
        `update idempotency.answer a set request_id = b.request_id, answer = b.answer
         from idempotency.answer b where a.scope <> b.scope and b.answer->'tokens' = '[]'`,
      );
      await expect(setup.answers.run(requestOf(), handler().handle)).rejects.toMatchObject(refused);
      expect(await setup.answers.run(requestOf(admin), handler().handle)).toMatchObject({
        body: { id: 'a2' },
      });
    });

    it('when it has the request id of another request that was cut off: that request is not continued', async () => {
      const begun: (readonly string[])[] = [];
      const cut = (scope: readonly string[]) => Promise.reject(new Error(`cut off ${begun.push(scope)}`));
      for (const each of [admin, {}])
        await expect(setup.answers.run(requestOf(each), cut)).rejects.toThrow('cut off');
      await setup.pool.query(
        `update idempotency.answer a set request_id = b.request_id from idempotency.answer b where a.scope <> b.scope`,
      );
      const { handle, scopes } = handler();
      await setup.answers.run(requestOf(), handle);
      expect(scopes).toHaveLength(1);
      expect(scopes).not.toContainEqual(begun[0]);
    });

    it.each([
      ['another token', `jsonb_set(answer, '{tokens,0,id}', '"tok_2"')`],
      ['another right', `jsonb_set(answer, '{tokens,0,by}', '"use"')`],
      ['a later end', `jsonb_set(answer, '{endsAt}', '"2099-01-01T00:00:00.000Z"')`],
      ['no signature', `answer - 'signature'`],
    ])('when it names %s', async (_what, change) => {
      setup.live({ id: 'tok_2' });
      const { handle, scopes } = handler();
      await setup.answers.run(requestOf(), handle);
      await setup.pool.query(`update idempotency.answer set answer = ${change}`);
      await expect(setup.answers.run(requestOf(), handle)).rejects.toMatchObject(refused);
      expect(scopes).toHaveLength(1);
    });
  });

  it('of an earlier release, which contained tokens, is not shown', async () => {
    const { handle, scopes } = handler();
    await setup.answers.run(requestOf(), handle);
    await setup.pool.query(`update idempotency.answer set answer = '{"status":201,"tokens":[]}'`);
    await expect(setup.answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    expect(scopes).toHaveLength(1);
  });

  it('without a body is given back without a body', async () => {
    const { handle, scopes } = handler({ position: '9' as Position });
    await setup.answers.run(requestOf(), handle);
    expect(await setup.answers.run(requestOf(), handle)).toEqual({
      position: '9',
      endsAtMs: expect.any(Number) as number,
    });
    expect(scopes).toHaveLength(1);
  });

  it('is swept with its keys when it has expired; running requests stay', async () => {
    await setup.answers.run(requestOf(), handler({ body: { is: 'kept' } }).handle);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const running = setup.answers.run(requestOf({ path: '/slow' }), async () => {
      await held;
      return {};
    });
    await waitUntil(async () => (await setup.pool.query('select from idempotency.answer')).rowCount === 2);
    expect(await setup.answers.sweep(clock.now())).toBe(0);
    clock.advance(24 * hourMs);
    expect(await setup.answers.sweep(clock.now())).toBe(1);
    expect(await setup.keyRing.destroyDue(clock.now(), 10)).toHaveLength(1);
    expect((await setup.pool.query('select from key_ring.data_key')).rowCount).toBe(0);
    release();
    await running;
  });

  it('that cannot be stored does not fail the request that has succeeded', async () => {
    const broken = openAnswers({
      pool: {
        query: (query: pg.QueryConfig) =>
          query.name === 'idempotency-store' ? Promise.reject(new Error('gone')) : setup.pool.query(query),
      } as never,
      keyRing: setup.keyRing,
      clock,
    });
    const { handle, scopes } = handler();
    expect(await broken.run(requestOf(), handle)).toMatchObject({ status: 201 });
    await setup.answers.run(requestOf(), handle);
    expect(scopes[1]).toEqual(scopes[0]);
  });
});

import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConflictError, NotFoundError, UnavailableError, ValidationError } from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, keyRingMigrations, type KeyRing } from '@token-vault/crypto';
import type { Position } from '@token-vault/event-store';
import { createTestDatabase, createTestPool, manualClock, waitUntil } from '@token-vault/test-support';
import {
  answerEntityOfToken,
  createIdempotentAnswers,
  idempotencyMigrations,
  type IdempotentAnswersOptions,
} from '../src/index.ts';
import type { Answer, IdempotentRequest, Repeating, TokenFacts } from '@token-vault/operations';
import { principalWith, tenantId } from './principal.ts';

const canary = '4111111111111111';
const hourMs = 3_600_000;
const clock = manualClock();
const migrations = [...keyRingMigrations, ...idempotencyMigrations];
const template = {
  name: `idempotency-${migrations.map(({ sql }) => sql.length).join('-')}`,
  fill: async (url: string) => {
    const own = createTestPool(url);
    for (const { sql } of migrations) await own.query(sql);
    await own.end();
  },
};
const rootKey = environmentRootKey(randomBytes(32).toString('hex'));

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let pool: pg.Pool;
const pools: pg.Pool[] = [];
let keyRing: KeyRing;
let answers: ReturnType<typeof openAnswers>;

/** Existing tokens, by id. */
const living = new Map<string, TokenFacts & { readonly token: object }>();
const live = (change: { id?: string; cvcEndsAt?: string } = {}) => {
  const shown = token(change.id === undefined ? {} : { id: change.id });
  living.set(shown.id, { createdAt: 'then', cvcEndsAt: change.cvcEndsAt, token: shown });
};

/** Shows the existing tokens, like the executor. */
const repeating: Repeating = {
  facts: async (ids) => ids.map((id) => living.get(id)),
  async show(answer, tokens) {
    let { body } = answer;
    for (const { id, at, createdAt } of tokens) {
      const found = living.get(id);
      if (found?.createdAt !== createdAt) throw new NotFoundError('A token of the first answer');
      if (at?.length === 0) body = found.token;
    }
    return { ...answer, body };
  },
};

function openAnswers(options: IdempotentAnswersOptions) {
  const opened = createIdempotentAnswers(options);
  return {
    run: (request: IdempotentRequest, handle: (scope: readonly string[]) => Promise<Answer>) =>
      opened.run(request, handle, repeating),
    sweep: (now: Date) => opened.sweep(now),
    abandonAll: () => opened.abandonAll(),
  };
}

beforeEach(async () => {
  living.clear();
  live();
  database = await createTestDatabase({ template });
  clock.set('2030-01-01T00:00:00Z');
  await restart();
  await keyRing.createTenantKeys(tenantId);
});

afterEach(async () => {
  await Promise.all(pools.splice(0).map((each) => each.end()));
  await database.drop();
});

async function restart(leaseMs = 60_000): Promise<void> {
  pool = createTestPool(database.url, { max: 10 });
  pools.push(pool);
  keyRing = await createKeyRing({ pool, clock, rootKey, durability: 'own' });
  answers = openAnswers({ pool, keyRing, clock, leaseMs });
}

const requestOf = (change: Partial<IdempotentRequest> = {}): IdempotentRequest => ({
  principal: principalWith(),
  method: 'POST',
  path: '/tokens',
  key: canary,
  ...change,
});

const token = (change: object = {}) => ({
  id: 'tok_1',
  tenant_id: tenantId,
  type: 'card',
  data: { number: canary },
  containers: ['/pci/high/'],
  ...change,
});

const ofToken = (id = 'tok_1') => [{ id, createdAt: 'then', at: [], by: 'create' } as const];

/** A handler that counts its runs. */
function handler(
  answer: Answer = { status: 201, body: token(), position: '7' as Position, tokens: ofToken() },
) {
  const scopes: (readonly string[])[] = [];
  const handle = async (scope: readonly string[]) => {
    scopes.push(scope);
    return answer;
  };
  return { handle, scopes };
}

describe('a request sent again with its idempotency key', () => {
  it('gets the first answer and does nothing', async () => {
    const { handle, scopes } = handler();
    const first = await answers.run(requestOf(), handle);
    const second = await answers.run(requestOf(), handle);
    const { tokens: _tokens, ...shown } = first;
    expect(second).toEqual(shown);
    expect(scopes).toHaveLength(1);
  });

  it('gets the first answer also after a restart, for 24 hours, and is then a new request', async () => {
    const { handle, scopes } = handler();
    await answers.run(requestOf(), handle);
    await restart();
    clock.advance(24 * hourMs - 1);
    expect(await answers.run(requestOf(), handle)).toMatchObject({ status: 201, body: token() });
    expect(scopes).toHaveLength(1);
    clock.advance(1);
    await answers.run(requestOf(), handle);
    expect(scopes).toHaveLength(2);
    expect(scopes[1]).not.toEqual(scopes[0]);
  });

  it.each([
    [
      'another application',
      { principal: principalWith({ applicationId: 'a2', actor: { kind: 'application', id: 'a2' } }) },
    ],
    ['a session of the application', { principal: principalWith({ actor: { kind: 'session', id: 's1' } }) }],
    ['another method', { method: 'PUT' }],
    ['another path', { path: '/tokenize' }],
    ['another key', { key: 'other' }],
  ] as const)('is another request from %s', async (_what, change) => {
    const { handle, scopes } = handler();
    await answers.run(requestOf(), handle);
    await answers.run(requestOf(change), handle);
    expect(scopes).toHaveLength(2);
    expect(scopes[1]).not.toEqual(scopes[0]);
  });

  it('runs again when the first one failed, as a new request when the first one certainly did nothing', async () => {
    const failing = handler();
    const fail = (error: Error) => async (scope: readonly string[]) => {
      failing.scopes.push(scope);
      throw error;
    };
    await expect(answers.run(requestOf(), fail(ValidationError.of('type', 'is bad')))).rejects.toThrow(
      ValidationError,
    );
    await expect(answers.run(requestOf(), fail(new UnavailableError('down')))).rejects.toThrow('down');
    await expect(answers.run(requestOf(), fail(new Error('unforeseen')))).rejects.toThrow('unforeseen');
    expect(await answers.run(requestOf(), failing.handle)).toMatchObject({ status: 201 });
    const [first, second, third, fourth] = failing.scopes;
    expect(second).not.toEqual(first);
    expect([third, fourth]).toEqual([second, second]);
  });

  it('of 50 at once runs once; the others get 409 while it runs, or its answer', async () => {
    const { scopes } = handler();
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const slow = async (scope: readonly string[]) => {
      scopes.push(scope);
      await held;
      return { status: 201, body: token(), tokens: ofToken() };
    };
    const runs = Array.from({ length: 50 }, () => answers.run(requestOf(), slow));
    const settled = Promise.allSettled(runs);
    let refused = 0;
    for (const run of runs) run.catch(() => (refused += 1));
    await waitUntil(() => refused === 49, { what: '49 refusals' });
    release();
    const outcomes = await settled;
    expect(scopes).toHaveLength(1);
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') {
        expect(outcome.reason).toBeInstanceOf(ConflictError);
        expect((outcome.reason as ConflictError).code).toBe('idempotency_in_flight');
      }
    }
    expect(await answers.run(requestOf(), slow)).toMatchObject({ status: 201, body: token() });
    expect(scopes).toHaveLength(1);
  });

  it('refuses a key that is too long', async () => {
    await expect(answers.run(requestOf({ key: 'k'.repeat(256) }), handler().handle)).rejects.toThrow(
      ValidationError,
    );
  });
});

describe('a request whose process was killed', () => {
  /** The answers of a process that extends no lease. */
  const withoutExtensions = (leaseMs = 5) => {
    const query = (asked: pg.QueryConfig) =>
      asked.name === 'idempotency-extend' ? undefined : pool.query(asked);
    return openAnswers({ pool: { query } as never, keyRing, clock, leaseMs });
  };

  /** The row that a killed process leaves: without an answer, and its lease is not extended. */
  async function cutOff(scopes: (readonly string[])[], leaseMs?: number): Promise<void> {
    await restart();
    const dead = withoutExtensions(leaseMs);
    void dead.run(requestOf(), (scope) => {
      scopes.push(scope);
      return new Promise(() => {});
    });
    await waitUntil(() => scopes.length === 1);
  }

  it('is taken over by one of the repeats, under the same ids', async () => {
    const { handle, scopes } = handler();
    await cutOff(scopes);
    const attempt = async () => {
      const tries = await Promise.allSettled(
        Array.from({ length: 10 }, () => answers.run(requestOf(), handle)),
      );
      return tries.some((each) => each.status === 'fulfilled');
    };
    await waitUntil(attempt, { what: 'a takeover' });
    expect(scopes).toHaveLength(2);
    expect(scopes[1]).toEqual(scopes[0]);
  });

  it('is taken over at once when the starting process knows that it is the only one', async () => {
    const { handle, scopes } = handler();
    await cutOff(scopes, 60_000);
    await expect(answers.run(requestOf(), handle)).rejects.toThrow('is running');
    await answers.abandonAll();
    await answers.run(requestOf(), handle);
    expect(scopes).toHaveLength(2);
    expect(scopes[1]).toEqual(scopes[0]);
  });

  it('keeps the answer of the other process when the first one continues after all', async () => {
    const late: Answer = { status: 200, body: { is: 'late' } };
    const { promise: held, resolve: wake } = Promise.withResolvers<void>();
    await restart();
    const sleeper = withoutExtensions();
    let isAsleep = false;
    const sleeping = sleeper.run(requestOf(), async () => {
      isAsleep = true;
      await held;
      return late;
    });
    await waitUntil(() => isAsleep);
    const { handle } = handler();
    await waitUntil(() => answers.run(requestOf(), handle), { what: 'a takeover' });
    wake();
    expect(await sleeping).toEqual(late);
    expect(await answers.run(requestOf(), handle)).toMatchObject({ status: 201, body: token() });
  });

  it('is not taken over while its process runs, after any time', async () => {
    await restart(40);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const { handle, scopes } = handler();
    const running = answers.run(requestOf(), async (scope) => {
      await held;
      return handle(scope).then((answer) => answer);
    });
    const extended = async () => {
      const { rows } = await pool.query<{ is: boolean }>(
        `select held_until > created + interval '80 milliseconds' as is from idempotency.answer, began`,
      );
      return rows[0]?.is;
    };
    await waitUntil(async () => (await pool.query('select from idempotency.answer')).rowCount === 1);
    await pool.query(
      "create table began as select held_until - interval '40 milliseconds' as created from idempotency.answer",
    );
    await waitUntil(extended, { what: 'two extensions' });
    await expect(answers.run(requestOf(), handle)).rejects.toThrow('is running');
    release();
    await running;
    expect(scopes).toHaveLength(1);
  });
});

describe('a stored answer', () => {
  const dump = async () => JSON.stringify((await pool.query('select * from idempotency.answer')).rows);

  it('holds neither the key nor the data in clear', async () => {
    const { handle } = handler({ status: 201, body: { id: 'x', key: `key_pvt_${canary}` } });
    await answers.run(requestOf(), handle);
    await answers.run(requestOf({ path: '/other' }), handler().handle);
    const { rows } = await pool.query<{ row: string }>('select a::text as row from idempotency.answer a');
    expect(rows).toHaveLength(2);
    expect(rows.map(({ row }) => row).join()).not.toContain(canary);
    expect(await dump()).not.toContain(canary);
  });

  it('holds no token: the present token is shown, and none when it has ended or another token has its id', async () => {
    const { handle, scopes } = handler();
    await answers.run(requestOf(), handle);
    expect((await pool.query('select from key_ring.data_key')).rowCount).toBe(0);
    const masked = token({ data: { number: 'masked' } });
    living.set('tok_1', { createdAt: 'then', cvcEndsAt: undefined, token: masked });
    expect(await answers.run(requestOf(), handle)).toMatchObject({ status: 201, body: masked });
    living.set('tok_1', { createdAt: 'later', cvcEndsAt: undefined, token: masked });
    await expect(answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    living.clear();
    await expect(answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
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
  const liveAll = () => ['tok_1', 'tok_2', 'tok_9'].forEach((id) => live({ id }));

  it('of many tokens is given back without them, its headers too, and holds nothing in clear', async () => {
    liveAll();
    const { handle } = handler(made());
    await answers.run(requestOf(), handle);
    expect(await answers.run(requestOf(), handle)).toEqual({
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
      await answers.run(requestOf(), handle);
      await keyRing.destroyKeysOfEntity(tenantId, answerEntityOfToken(id));
      await expect(answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
      expect(scopes).toHaveLength(1);
    },
  );

  it('is not shown once a cvc that it contains is deleted', async () => {
    liveAll();
    live({ id: 'tok_1', cvcEndsAt: '2030-01-01T00:40:00Z' });
    const { handle, scopes } = handler(made());
    await answers.run(requestOf(), handle);
    clock.set('2030-01-01T00:39:59.999Z');
    expect(await answers.run(requestOf(), handle)).toMatchObject({ body: { raw: canary } });
    clock.set('2030-01-01T00:40:00Z');
    await expect(answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    expect(await keyRing.destroyDue(clock.now(), 10)).toHaveLength(3);
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
      await answers.run(requestOf(), handle);
      await expect(answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    },
  );

  it.each([
    ['a token of it has ended already', { ...made(), tokens: [{ id: 'gone', by: 'seen' as const }] }],
    ['it is not known of which tokens it was made', { ...made(), tokens: [], isUnrepeatable: true }],
  ])('is not kept when %s, and the request is not run again', async (_why, answer) => {
    const { handle, scopes } = handler(answer);
    await answers.run(requestOf(), handle);
    await expect(answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    expect(await dump()).not.toContain(canary);
    expect(scopes).toHaveLength(1);
  });

  it('is not kept when its status is that of a failure, which a reactor may choose', async () => {
    const { handle, scopes } = handler({ status: 402, headers: {}, body: { is: 'declined' } });
    await answers.run(requestOf(), handle);
    expect(await answers.run(requestOf(), handle)).toMatchObject({ status: 402 });
    expect(scopes).toHaveLength(2);
    expect(scopes[1]).not.toEqual(scopes[0]);
  });

  describe('whose row was changed by a writer of the database is refused', () => {
    const admin = { path: '/applications', key: 'of the administrator' };
    const refused = { code: 'record_altered' };

    it('when it is put into the row of another request', async () => {
      await answers.run(requestOf(admin), handler({ body: { id: 'a2', key: `key_prv_${canary}` } }).handle);
      await answers.run(requestOf(), handler().handle);
      await pool.query(
        `update idempotency.answer a set request_id = b.request_id, answer = b.answer
         from idempotency.answer b where a.scope <> b.scope and b.answer->'tokens' = '[]'`,
      );
      await expect(answers.run(requestOf(), handler().handle)).rejects.toMatchObject(refused);
      expect(await answers.run(requestOf(admin), handler().handle)).toMatchObject({ body: { id: 'a2' } });
    });

    it('when it has the request id of another request that was cut off: that request is not continued', async () => {
      const begun: (readonly string[])[] = [];
      const cut = (scope: readonly string[]) => Promise.reject(new Error(`cut off ${begun.push(scope)}`));
      for (const each of [admin, {}])
        await expect(answers.run(requestOf(each), cut)).rejects.toThrow('cut off');
      await pool.query(
        `update idempotency.answer a set request_id = b.request_id from idempotency.answer b where a.scope <> b.scope`,
      );
      const { handle, scopes } = handler();
      await answers.run(requestOf(), handle);
      expect(scopes).toHaveLength(1);
      expect(scopes).not.toContainEqual(begun[0]);
    });

    it.each([
      ['another token', `jsonb_set(answer, '{tokens,0,id}', '"tok_2"')`],
      ['another right', `jsonb_set(answer, '{tokens,0,by}', '"use"')`],
      ['a later end', `jsonb_set(answer, '{endsAt}', '"2099-01-01T00:00:00.000Z"')`],
      ['no signature', `answer - 'signature'`],
    ])('when it names %s', async (_what, change) => {
      live({ id: 'tok_2' });
      const { handle, scopes } = handler();
      await answers.run(requestOf(), handle);
      await pool.query(`update idempotency.answer set answer = ${change}`);
      await expect(answers.run(requestOf(), handle)).rejects.toMatchObject(refused);
      expect(scopes).toHaveLength(1);
    });
  });

  it('of an earlier release, which contained tokens, is not shown', async () => {
    const { handle, scopes } = handler();
    await answers.run(requestOf(), handle);
    await pool.query(`update idempotency.answer set answer = '{"status":201,"tokens":[]}'`);
    await expect(answers.run(requestOf(), handle)).rejects.toMatchObject({ code: 'not_found' });
    expect(scopes).toHaveLength(1);
  });

  it('without a body is given back without a body', async () => {
    const { handle, scopes } = handler({ position: '9' as Position });
    await answers.run(requestOf(), handle);
    expect(await answers.run(requestOf(), handle)).toEqual({ position: '9' });
    expect(scopes).toHaveLength(1);
  });

  it('is swept with its keys when it has expired; running requests stay', async () => {
    await answers.run(requestOf(), handler({ body: { is: 'kept' } }).handle);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const running = answers.run(requestOf({ path: '/slow' }), async () => {
      await held;
      return {};
    });
    await waitUntil(async () => (await pool.query('select from idempotency.answer')).rowCount === 2);
    expect(await answers.sweep(clock.now())).toBe(0);
    clock.advance(24 * hourMs);
    expect(await answers.sweep(clock.now())).toBe(1);
    expect(await keyRing.destroyDue(clock.now(), 10)).toHaveLength(1);
    expect((await pool.query('select from key_ring.data_key')).rowCount).toBe(0);
    release();
    await running;
  });

  it('that cannot be stored does not fail the request that has succeeded', async () => {
    const broken = openAnswers({
      pool: {
        query: (query: pg.QueryConfig) =>
          query.name === 'idempotency-store' ? Promise.reject(new Error('gone')) : pool.query(query),
      } as never,
      keyRing,
      clock,
    });
    const { handle, scopes } = handler();
    expect(await broken.run(requestOf(), handle)).toMatchObject({ status: 201 });
    await answers.run(requestOf(), handle);
    expect(scopes[1]).toEqual(scopes[0]);
  });
});

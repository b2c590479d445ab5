import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { ConflictError, UnavailableError, ValidationError } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import type { Answer } from '@token-vault/operations';
import { principalWith } from './principal.ts';
import { handler, hourMs, ofToken, requestOf, token, useAnswers } from './answers-setup.ts';

const setup = useAnswers();
const { clock, openAnswers } = setup;

describe('a request sent again with its idempotency key', () => {
  it('gets the first answer and does nothing', async () => {
    const { handle, scopes } = handler();
    const first = await setup.answers.run(requestOf(), handle);
    const second = await setup.answers.run(requestOf(), handle);
    const { tokens: _tokens, ...shown } = first;
    expect(second).toEqual({ ...shown, endsAtMs: expect.any(Number) as number });
    expect(scopes).toHaveLength(1);
  });

  it('gets the first answer also after a restart, for 24 hours, and is then a new request', async () => {
    const { handle, scopes } = handler();
    await setup.answers.run(requestOf(), handle);
    await setup.restart();
    clock.advance(24 * hourMs - 1);
    expect(await setup.answers.run(requestOf(), handle)).toMatchObject({ status: 201, body: token() });
    expect(scopes).toHaveLength(1);
    clock.advance(1);
    await setup.answers.run(requestOf(), handle);
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
    await setup.answers.run(requestOf(), handle);
    await setup.answers.run(requestOf(change), handle);
    expect(scopes).toHaveLength(2);
    expect(scopes[1]).not.toEqual(scopes[0]);
  });

  it('runs again when the first one failed, as a new request when the first one certainly did nothing', async () => {
    const failing = handler();
    const fail = (error: Error) => async (scope: readonly string[]) => {
      failing.scopes.push(scope);
      throw error;
    };
    await expect(setup.answers.run(requestOf(), fail(ValidationError.of('type', 'is bad')))).rejects.toThrow(
      ValidationError,
    );
    await expect(setup.answers.run(requestOf(), fail(new UnavailableError('down')))).rejects.toThrow('down');
    await expect(setup.answers.run(requestOf(), fail(new Error('unforeseen')))).rejects.toThrow('unforeseen');
    expect(await setup.answers.run(requestOf(), failing.handle)).toMatchObject({ status: 201 });
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
    const runs = Array.from({ length: 50 }, () => setup.answers.run(requestOf(), slow));
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
    expect(await setup.answers.run(requestOf(), slow)).toMatchObject({ status: 201, body: token() });
    expect(scopes).toHaveLength(1);
  });

  it('refuses a key that is too long', async () => {
    await expect(setup.answers.run(requestOf({ key: 'k'.repeat(256) }), handler().handle)).rejects.toThrow(
      ValidationError,
    );
  });
});

describe('a request whose process was killed', () => {
  /** The answers of a process that extends no lease. */
  const withoutExtensions = (leaseMs = 5) => {
    const query = (asked: pg.QueryConfig) =>
      asked.name === 'idempotency-extend' ? undefined : setup.pool.query(asked);
    return openAnswers({ pool: { query } as never, keyRing: setup.keyRing, clock, leaseMs });
  };

  /** The row that a killed process leaves: without an answer, and its lease is not extended. */
  async function cutOff(scopes: (readonly string[])[], leaseMs?: number): Promise<void> {
    await setup.restart();
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
        Array.from({ length: 10 }, () => setup.answers.run(requestOf(), handle)),
      );
      return tries.some((each) => each.status === 'fulfilled');
    };
    await waitUntil(attempt, { what: 'a takeover' });
    expect(scopes).toHaveLength(2);
    expect(scopes[1]).toEqual(scopes[0]);
  });

  it('holds its key for three seconds at most, also after an extension of its lease', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const extensions: Promise<unknown>[] = [];
    const query = (asked: pg.QueryConfig) => {
      const done = setup.pool.query(asked);
      if (asked.name === 'idempotency-extend') extensions.push(done);
      return done;
    };
    const { handle } = handler();
    const running = openAnswers({ pool: { query } as never, keyRing: setup.keyRing, clock }).run(
      requestOf(),
      (scope) => held.then(() => handle(scope)),
    );
    const isHeld = async () => {
      const { rows } = await setup.pool.query<{ is: boolean }>(
        `select held_until <= clock_timestamp() + interval '3 seconds' as is from idempotency.answer`,
      );
      return rows[0]?.is;
    };
    await waitUntil(async () => (await isHeld()) !== undefined, { what: 'the row of the request' });
    expect(await isHeld()).toBe(true);
    await waitUntil(() => extensions.length > 0, { what: 'an extension' });
    await extensions[0];
    expect(await isHeld()).toBe(true);
    release();
    await running;
  });

  it('is taken over at once when the starting process knows that it is the only one', async () => {
    const { handle, scopes } = handler();
    await cutOff(scopes, 60_000);
    await expect(setup.answers.run(requestOf(), handle)).rejects.toThrow('is running');
    await setup.answers.abandonAll();
    await setup.answers.run(requestOf(), handle);
    expect(scopes).toHaveLength(2);
    expect(scopes[1]).toEqual(scopes[0]);
  });

  it('keeps the answer of the other process when the first one continues after all', async () => {
    const late: Answer = { status: 200, body: { is: 'late' } };
    const { promise: held, resolve: wake } = Promise.withResolvers<void>();
    await setup.restart();
    const sleeper = withoutExtensions();
    let isAsleep = false;
    const sleeping = sleeper.run(requestOf(), async () => {
      isAsleep = true;
      await held;
      return late;
    });
    await waitUntil(() => isAsleep);
    const { handle } = handler();
    await waitUntil(() => setup.answers.run(requestOf(), handle), { what: 'a takeover' });
    wake();
    expect(await sleeping).toEqual(late);
    expect(await setup.answers.run(requestOf(), handle)).toMatchObject({ status: 201, body: token() });
  });

  it('is not held again by an extension of its lease that comes after its end', async () => {
    await setup.restart();
    const { promise: delay, resolve: endDelay } = Promise.withResolvers<void>();
    const extensions: Promise<unknown>[] = [];
    const query = (asked: pg.QueryConfig) => {
      if (asked.name !== 'idempotency-extend') return setup.pool.query(asked);
      extensions.push(delay.then(() => setup.pool.query(asked)));
      return extensions.at(-1);
    };
    const slow = openAnswers({ pool: { query } as never, keyRing: setup.keyRing, clock, leaseMs: 4_000 });
    const { handle, scopes } = handler();
    const first = slow.run(requestOf(), async (scope) => {
      scopes.push(scope);
      await waitUntil(() => extensions.length > 0, { what: 'an extension' });
      throw new UnavailableError('The outcome is not known.');
    });
    await expect(first).rejects.toThrow(UnavailableError);
    endDelay();
    await Promise.all(extensions);
    await setup.answers.run(requestOf(), handle);
    expect(scopes[1]).toEqual(scopes[0]);
  });

  it('is not taken over while its process runs, after any time', async () => {
    await setup.restart(40);
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const { handle, scopes } = handler();
    const running = setup.answers.run(requestOf(), async (scope) => {
      await held;
      return handle(scope).then((answer) => answer);
    });
    const extended = async () => {
      const { rows } = await setup.pool.query<{ is: boolean }>(
        `select held_until > created + interval '80 milliseconds' as is from idempotency.answer, began`,
      );
      return rows[0]?.is;
    };
    await waitUntil(async () => (await setup.pool.query('select from idempotency.answer')).rowCount === 1);
    await setup.pool.query(
      "create table began as select held_until - interval '40 milliseconds' as created from idempotency.answer",
    );
    await waitUntil(extended, { what: 'two extensions' });
    await expect(setup.answers.run(requestOf(), handle)).rejects.toThrow('is running');
    release();
    await running;
    expect(scopes).toHaveLength(1);
  });
});

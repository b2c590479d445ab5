import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Json } from '@token-vault/contracts';
import { afterEach, describe, expect, it } from 'vitest';
import type { Told } from './asked.ts';
import { must, newCaller, type Role } from './cast.ts';
import { tell, type Asked, type Asker } from './entrances.ts';
import { card } from './hidden.ts';
import { bodyTookMs, hidden, useInFlight } from './in-flight.ts';
import { rule } from './rights.ts';

const vault = useInFlight();

describe('a token that others change while a create shows it again', () => {
  const makesMasked: Role = {
    type: 'private',
    permissions: [],
    rules: [rule({ container: '/a/', transform: 'mask', permissions: ['token:read', 'token:create'] })],
  };
  const body = {
    id: 'again',
    type: 'token',
    data: 'as it was',
    mask: '{{ data }}',
    fingerprint_expression: '{{ data }}',
    containers: ['/a/'],
  };
  const { id: _id, ...equal } = body;
  const ways: Readonly<Record<string, (by: Asker) => Promise<() => Promise<Told>>>> = {
    'a repeat': async (by) => {
      const idempotencyKey = randomUUID();
      const create = () => tell(vault.twins, by, { operation: 'createToken', body }, { idempotencyKey });
      await create();
      return create;
    },
    'a create that is answered by a token of equal data': async (by) => {
      await must(vault.twins, vault.cast.author, { operation: 'createToken', body });
      const deduplicated = { ...equal, deduplicate_token: true };
      return () => tell(vault.twins, by, { operation: 'createToken', body: deduplicated });
    },
  };
  const changes: Readonly<Record<string, Asked | undefined>> = {
    nothing: undefined,
    'a move': { operation: 'updateToken', params: { id: 'again' }, body: { containers: ['/b/'] } },
    'a deletion': { operation: 'deleteToken', params: { id: 'again' } },
  };
  const cases = Object.keys(ways).flatMap((way) => Object.keys(changes).map((change) => [way, change]));

  it.each(cases)('%s shows what is right after %s', async (way = '', change = '') => {
    const caller = await newCaller(vault.twins, vault.cast.manager, makesMasked);
    const ask = await ways[way]?.(caller);
    let opened = 0;
    vault.twins.beforeOpening(async (entity) => {
      if (entity !== 'token:again' || ++opened > 1) return;
      vault.twins.clock.advance(1);
      const asked = changes[change];
      if (asked) await must(vault.twins, vault.cast.author, asked);
      // The vault looks again at tokens of answers that took longer than this.
      await delay(bodyTookMs);
    });
    const told = await ask?.().finally(() => vault.twins.beforeOpening());
    expect(opened).toBeGreaterThan(0);
    expect(JSON.stringify(told?.body).includes('as it was')).toBe(change === 'nothing');
  });

  it('a repeat shows no data by rights that were granted for a moment', async () => {
    const caller = await newCaller(vault.twins, vault.cast.manager, makesMasked);
    const idempotencyKey = randomUUID();
    const asked = { operation: 'createToken', body: { ...body, mask: '{{ data | size }}' } } as const;
    await tell(vault.twins, caller, asked, { idempotencyKey });
    const grant = (rules: Role['rules']) =>
      must(vault.twins, vault.cast.manager, {
        operation: 'updateApplication',
        params: { id: caller.id },
        body: { name: 'caller', permissions: [], rules },
      });
    const rulesAt = [
      makesMasked.rules.map((each) => ({ ...each, transform: 'reveal' as const })),
      makesMasked.rules,
    ];
    let opened = 0;
    vault.twins.beforeOpening(async (entity) => {
      const rules = entity === 'token:again' ? rulesAt[opened++] : undefined;
      if (rules) await grant(rules);
      await delay(bodyTookMs);
    });
    const told = await tell(vault.twins, caller, asked, { idempotencyKey }).finally(() =>
      vault.twins.beforeOpening(),
    );
    expect(opened).toBe(3);
    expect(told.body).toMatchObject({ data: 9 });
  });
  afterEach(() =>
    tell(vault.twins, vault.cast.author, { operation: 'deleteToken', params: { id: 'again' } }),
  );
});

describe('a cvc that ends after it was opened and before the answer leaves', () => {
  const hourMs = 3_600_000;
  const cvc = '7391';
  const data = card(hidden.number, cvc);
  const ids = ['with a cvc', 'other'] as const;
  const tokens: Json = [
    { id: ids[0], type: 'card', data, containers: ['/a/'] },
    { id: ids[1], type: 'token', data: 'other', containers: ['/a/'] },
  ];

  /** The answer to a request that waits for the read models when it has been made. */
  async function patchAcross(passingMs: number): Promise<Told> {
    await must(vault.twins, vault.cast.author, { operation: 'createTokens', body: { tokens } });
    const held = await vault.twins.pool.connect();
    await held.query('begin; lock table rm_tokens.token in access exclusive mode');
    const patch = { metadata: { of: 'the patch' } };
    const asked = { operation: 'updateToken', params: { id: ids[0] }, body: patch } as const;
    const telling = tell(vault.twins, vault.cast.author, asked);
    await delay(bodyTookMs);
    vault.twins.clock.advance(passingMs);
    await held.query('commit');
    held.release();
    return telling;
  }

  /** The repeat of a batch. It opens the card, and then waits before it opens the other token. */
  async function repeatAcross(passingMs: number): Promise<Told> {
    const idempotencyKey = randomUUID();
    const ask = () =>
      tell(
        vault.twins,
        vault.cast.author,
        { operation: 'createTokens', body: { tokens } },
        { idempotencyKey },
      );
    await ask();
    let isOver = false;
    vault.twins.beforeOpening(async (entity) => {
      if (entity !== `token:${ids[1]}` || isOver) return;
      isOver = true;
      await delay(bodyTookMs);
      vault.twins.clock.advance(passingMs);
    });
    return ask().finally(() => vault.twins.beforeOpening());
  }

  it.each([
    ['a patch', patchAcross],
    ['the repeat of a batch', repeatAcross],
  ] as const)('is not in the answer of %s', async (_name, answerAcross) => {
    const before = await answerAcross(0);
    expect(JSON.stringify(before.body)).toContain(cvc);
    await must(vault.twins, vault.cast.author, { operation: 'deleteTokens', body: { ids: [...ids] } });
    const { status, body } = await answerAcross(hourMs);
    expect(status).toBe(before.status);
    expect(JSON.stringify(body)).toContain(hidden.number);
    expect(JSON.stringify(body)).not.toContain(cvc);
  });
  afterEach(() =>
    tell(vault.twins, vault.cast.author, { operation: 'deleteTokens', body: { ids: [...ids] } }),
  );
});

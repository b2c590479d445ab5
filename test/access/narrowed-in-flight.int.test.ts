import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Json, LogEntry, Pagination } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Told } from './asked.ts';
import { must, newCaller, openCast, type Cast, type Role } from './cast.ts';
import { direct, tell, type Asked, type Asker } from './entrances.ts';
import { card, hiddenOf } from './hidden.ts';
import { everything, permissions, rule, type Rights } from './rights.ts';
import { openTwins, type Twins } from './twins.ts';

/** Longer than the time after which the vault authenticates the caller again and looks again at the tokens of an answer. */
const bodyTookMs = 150;
const [hidden] = hiddenOf;
const masking: Rights = { permissions: [...permissions], rules: [] };

/** Sees all of `/a/`, and nothing elsewhere. */
const seesA: Rights = {
  permissions: [],
  rules: [rule({ container: '/a/', transform: 'reveal', permissions: ['token:read', 'token:search'] })],
};

let twins: Twins;
let cast: Cast;
beforeAll(async () => {
  twins = await openTwins();
  const [tenantId] = await twins.newPair();
  cast = await openCast(twins, tenantId, { type: 'private', ...masking });
  const data = card(hidden.number, hidden.cvc);
  const body = { id: 'live', type: 'card', data, containers: ['/a/'] };
  await must(twins, cast.author, { operation: 'createToken', body });
});
afterAll(() => twins.close());

const asks: Readonly<Record<string, Asked>> = {
  'a search': { operation: 'searchTokens', body: { query: 'type:card' } },
  'a patch of the mask': {
    operation: 'updateToken',
    params: { id: 'live' },
    body: { mask: '{{ data }}' },
  },
  'a patch': { operation: 'updateToken', params: { id: 'live' }, body: { metadata: { k: 'v' } } },
};

/** The answers to a caller whose rights change while its body is being sent. */
async function tellWhile(asked: Asked, change: (id: string) => Asked) {
  const caller = await newCaller(twins, cast.manager, { type: 'private', ...everything });
  return tell(twins, caller, asked, {
    async readBody() {
      await must(twins, cast.manager, change(caller.id));
      await delay(bodyTookMs);
      return asked.body;
    },
  });
}

/** Locks the read model of tokens, so that queries of it and its projection wait. */
async function lockTokens() {
  const client = await twins.pool.connect();
  await client.query('begin; lock table rm_tokens.token in access exclusive mode');
  const waiting = `select from pg_locks where relation = 'rm_tokens.token'::regclass and not granted`;
  return {
    /** Resolves when a query or the projection waits for the lock. */
    isAwaited: () =>
      waitUntil(async () => (await client.query(waiting)).rowCount, { what: 'a wait for the lock' }),
    async release() {
      await client.query('commit');
      client.release();
    },
  };
}

/** The answer to `asked` while the read model of tokens is locked and the caller's rights change. */
async function tellAcross(asked: Asked, change: (id: string) => Asked) {
  const caller = await newCaller(twins, cast.manager, { type: 'private', ...everything });
  const lock = await lockTokens();
  const telling = tell(twins, caller, asked);
  await lock.isAwaited();
  // The lock also delays the read models, so this answer does not wait for them.
  await tell(twins, cast.manager, change(caller.id), { isAsync: true });
  await delay(bodyTookMs);
  await lock.release();
  return telling;
}

/** The answers equal those to a caller that has had the new rights from the start. */
async function expectPresentRights(tellWhileChanged: typeof tellWhile, asked: Asked): Promise<void> {
  const narrowed = await tellWhileChanged(asked, (id) => ({
    operation: 'updateApplication',
    params: { id },
    body: { name: 'caller', ...masking },
  }));
  const [before] = await direct.ask(twins, cast.caller(0), asked);
  expect(narrowed.status).toBe(before?.status);
  expect(JSON.stringify(narrowed.body)).not.toContain(hidden.number);
  const deleted = await tellWhileChanged(asked, (id) => ({ operation: 'deleteApplication', params: { id } }));
  expect(deleted.status).toBe(401);
}

describe('a caller whose rights change while the vault answers', () => {
  const takingLong: Readonly<Record<string, Asked>> = {
    'a search that waits for its rows': { operation: 'searchTokens', body: { query: 'type:card' } },
    'a list that waits for its rows': { operation: 'listTokens' },
    'a patch that waits for the read models': {
      operation: 'updateToken',
      params: { id: 'live' },
      body: { metadata: { k: 'v' } },
    },
  };
  it.each(Object.entries(takingLong))('%s is shown what it may see at that moment', async (_name, asked) => {
    await expectPresentRights(tellAcross, asked);
  });
});

describe('a token that expires while the vault answers', () => {
  it.each(['listTokens', 'searchTokens'] as const)('is not shown by %s', async (operation) => {
    const caller = await newCaller(twins, cast.manager, { type: 'private', ...everything });
    const expires_at = new Date(twins.clock.now().getTime() + 60_000).toISOString();
    const body = {
      id: `ends-${operation}`,
      type: 'token',
      data: 'short-lived',
      containers: ['/a/'],
      expires_at,
    };
    await must(twins, cast.author, { operation: 'createToken', body });
    const asked: Asked =
      operation === 'listTokens' ? { operation } : { operation, body: { query: 'type:token' } };
    const lock = await lockTokens();
    const telling = tell(twins, caller, asked);
    await lock.isAwaited();
    await delay(bodyTookMs);
    twins.clock.advance(60_000);
    await lock.release();
    const { body: answer } = await telling;
    expect(answer).toHaveProperty('pagination');
    expect(JSON.stringify(answer)).not.toContain('short-lived');
  });
});

describe('a token that is changed after it was read and before the answer leaves', () => {
  const asks: Readonly<Record<string, (id: string) => Asked>> = {
    'a read': (id) => ({ operation: 'getToken', params: { id } }),
    'a list': () => ({ operation: 'listTokens' }),
    'a search': () => ({ operation: 'searchTokens', body: { query: 'type:token' } }),
    detokenize: (id) => ({ operation: 'detokenize', body: { data: `{{ ${id} }}` } }),
  };
  const changes: Readonly<Record<string, (id: string) => Asked>> = {
    'moved to where the caller sees nothing': (id) => ({
      operation: 'updateToken',
      params: { id },
      body: { containers: ['/b/'] },
    }),
    'given other data': (id) => ({ operation: 'updateToken', params: { id }, body: { data: 'new' } }),
    deleted: (id) => ({ operation: 'deleteToken', params: { id } }),
  };
  const cases = Object.keys(asks).flatMap((ask) =>
    Object.keys(changes).map((change) => [change, ask] as const),
  );
  let made = 0;

  it.each(cases)('and %s is not shown as it was by %s', async (change, ask) => {
    const caller = await newCaller(twins, cast.manager, { type: 'private', ...seesA });
    const id = `changed-${++made}`;
    const body = { id, type: 'token', data: 'as it was', containers: ['/a/'] };
    await must(twins, cast.author, { operation: 'createToken', body });
    const held = twins.holdReadings();
    const telling = tell(twins, caller, asks[ask]?.(id) ?? { operation: 'listTokens' });
    await waitUntil(() => held.isHeld(), { what: 'the answer' });
    await must(twins, cast.author, changes[change]?.(id) ?? { operation: 'listTokens' });
    // The vault looks again at tokens of answers that took longer than this.
    await delay(bodyTookMs);
    held.release();
    expect(JSON.stringify((await telling).body)).not.toContain('as it was');
    await tell(twins, cast.author, { operation: 'deleteToken', params: { id } });
  });
});

describe('an answer whose tokens others change while it is made', () => {
  const seesMasked: Role = {
    type: 'private',
    permissions: [],
    rules: [rule({ container: '/a/', transform: 'mask', permissions: ['token:read', 'token:search'] })],
  };
  const asks: Readonly<Record<string, Asked>> = {
    'a list': { operation: 'listTokens' },
    'a search': { operation: 'searchTokens', body: { query: 'type:token' } },
    detokenize: { operation: 'detokenize', body: { slow: '{{ slow }}', shared: '{{ shared }}' } },
  };
  let versions = 0;
  const change = (body: Json = { data: `version ${++versions}`, mask: '{{ data }}' }) =>
    must(twins, cast.author, { operation: 'updateToken', params: { id: 'shared' }, body });

  /** The answer when `changed` is called each time that the token is opened, and the transforms of the tokens by the log. */
  async function tellWhileOpened(id: string, asked: Asked, changed: () => Promise<unknown>) {
    const caller = await newCaller(twins, cast.manager, seesMasked);
    let isChanging = false;
    twins.beforeOpening(async (entity) => {
      if (entity !== `token:${id}` || isChanging) return;
      isChanging = true;
      await changed();
      // The vault looks again at tokens of answers that took longer than this.
      await delay(bodyTookMs);
      isChanging = false;
    });
    const { status = 200, body } = await tell(twins, caller, asked).finally(() => twins.beforeOpening());
    const asking: Asked = { operation: 'listLogs', query: { actor_id: caller.id } };
    const { data } = (await must(twins, cast.manager, asking)) as unknown as { data: LogEntry[] };
    const shown = data.filter(
      ({ entity_id: of, transform }) => transform && (of === 'slow' || of === 'shared'),
    );
    const log = shown.map(({ entity_id: of, transform }) => `${of}: ${transform}`).sort();
    return { status, text: JSON.stringify(body), body, log };
  }

  beforeEach(async () => {
    // Too many filters for the short cut: a worker evaluates this mask.
    const mask = '{{ data | upcase | downcase | upcase | downcase | upcase }}';
    for (const id of ['slow', 'shared']) {
      const body = { id, type: 'token', data: 'as it was', mask, containers: ['/a/'] };
      await must(twins, cast.author, { operation: 'createToken', body });
    }
  });
  afterEach(async () => {
    for (const id of ['slow', 'shared'])
      await must(twins, cast.author, { operation: 'deleteToken', params: { id } });
  });

  it.each(Object.entries(asks))('%s is answered, and is one reading in the log', async (_name, asked) => {
    const { status, text, log } = await tellWhileOpened('slow', asked, () => change());
    expect(status).toBe(200);
    expect(text).toContain('AS IT WAS');
    expect(text).toContain(`version ${versions}`);
    expect(log).toEqual(['shared: mask', 'slow: mask']);
  });

  it.each(Object.entries(asks))(
    '%s without a token that has left is no reading of it',
    async (_name, asked) => {
      const { status, body, text, log } = await tellWhileOpened('slow', asked, () =>
        change({ containers: ['/b/'] }),
      );
      expect(status).toBe(200);
      expect(text.match(/as it was/gi)).toHaveLength(1);
      expect(log).toEqual(['slow: mask']);
      const page = body as unknown as { pagination?: Pagination; data: readonly Json[] };
      if (page.pagination) expect(page.pagination.total_items).toBe(page.data.length);
    },
  );

  it.each(Object.entries(asks))(
    '%s shows no data of a token that changes each time',
    async (_name, asked) => {
      const mask = '{{ data | upcase | downcase | upcase | downcase | upcase }}';
      const { status, text, log } = await tellWhileOpened('shared', asked, () =>
        change({ data: `version ${++versions}`, mask }),
      );
      expect(status).toBe(200);
      expect(text.match(/as it was|version/gi)).toEqual(['AS IT WAS']);
      expect(log).toEqual(['shared: redact', 'slow: mask']);
    },
  );
});

describe('a token that others change after a patch and before its answer leaves', () => {
  const changesMasked: Role = {
    type: 'private',
    permissions: [],
    rules: [rule({ container: '/a/', transform: 'mask', permissions: ['token:read', 'token:update'] })],
  };
  const patch = (body: Json): Asked => ({ operation: 'updateToken', params: { id: 'patched' }, body });

  /** The answer to a patch that waits for the read models. The author changes the token meanwhile. */
  async function patchWhile(change?: Json): Promise<string> {
    const caller = await newCaller(twins, cast.manager, changesMasked);
    const body = { id: 'patched', type: 'token', data: 'as it was', mask: '{{ data }}', containers: ['/a/'] };
    await must(twins, cast.author, { operation: 'createToken', body });
    const lock = await lockTokens();
    const telling = tell(twins, caller, patch({ metadata: { of: 'the patch' } }));
    await lock.isAwaited();
    twins.clock.advance(1);
    if (change !== undefined) await tell(twins, cast.author, patch(change), { isAsync: true });
    await delay(bodyTookMs);
    await lock.release();
    const { body: answer } = await telling;
    await must(twins, cast.author, { operation: 'deleteToken', params: { id: 'patched' } });
    return JSON.stringify(answer);
  }

  it('is shown by its mask when it was not changed', async () => {
    expect(await patchWhile()).toContain('as it was');
  });

  it('is not shown when it was moved to where the caller sees nothing', async () => {
    expect(await patchWhile({ containers: ['/b/'] })).not.toContain('as it was');
  });

  it('is shown by the mask that it was given', async () => {
    const answer = await patchWhile({ data: 'as it is', mask: 'hidden' });
    expect(answer).toContain('hidden');
    expect(answer).not.toMatch(/as it/);
  });
});

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
      const create = () => tell(twins, by, { operation: 'createToken', body }, { idempotencyKey });
      await create();
      return create;
    },
    'a create that is answered by a token of equal data': async (by) => {
      await must(twins, cast.author, { operation: 'createToken', body });
      const deduplicated = { ...equal, deduplicate_token: true };
      return () => tell(twins, by, { operation: 'createToken', body: deduplicated });
    },
  };
  const changes: Readonly<Record<string, Asked | undefined>> = {
    nothing: undefined,
    'a move': { operation: 'updateToken', params: { id: 'again' }, body: { containers: ['/b/'] } },
    'a deletion': { operation: 'deleteToken', params: { id: 'again' } },
  };
  const cases = Object.keys(ways).flatMap((way) => Object.keys(changes).map((change) => [way, change]));

  it.each(cases)('%s shows what is right after %s', async (way = '', change = '') => {
    const caller = await newCaller(twins, cast.manager, makesMasked);
    const ask = await ways[way]?.(caller);
    let opened = 0;
    twins.beforeOpening(async (entity) => {
      if (entity !== 'token:again' || ++opened > 1) return;
      twins.clock.advance(1);
      const asked = changes[change];
      if (asked) await must(twins, cast.author, asked);
      // The vault looks again at tokens of answers that took longer than this.
      await delay(bodyTookMs);
    });
    const told = await ask?.().finally(() => twins.beforeOpening());
    expect(opened).toBeGreaterThan(0);
    expect(JSON.stringify(told?.body).includes('as it was')).toBe(change === 'nothing');
  });

  it('a repeat shows no data by rights that were granted for a moment', async () => {
    const caller = await newCaller(twins, cast.manager, makesMasked);
    const idempotencyKey = randomUUID();
    const asked = { operation: 'createToken', body: { ...body, mask: '{{ data | size }}' } } as const;
    await tell(twins, caller, asked, { idempotencyKey });
    const grant = (rules: Role['rules']) =>
      must(twins, cast.manager, {
        operation: 'updateApplication',
        params: { id: caller.id },
        body: { name: 'caller', permissions: [], rules },
      });
    const rulesAt = [
      makesMasked.rules.map((each) => ({ ...each, transform: 'reveal' as const })),
      makesMasked.rules,
    ];
    let opened = 0;
    twins.beforeOpening(async (entity) => {
      const rules = entity === 'token:again' ? rulesAt[opened++] : undefined;
      if (rules) await grant(rules);
      await delay(bodyTookMs);
    });
    const told = await tell(twins, caller, asked, { idempotencyKey }).finally(() => twins.beforeOpening());
    expect(opened).toBe(3);
    expect(told.body).toMatchObject({ data: 9 });
  });
  afterEach(() => tell(twins, cast.author, { operation: 'deleteToken', params: { id: 'again' } }));
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
    await must(twins, cast.author, { operation: 'createTokens', body: { tokens } });
    const held = await twins.pool.connect();
    await held.query('begin; lock table rm_tokens.token in access exclusive mode');
    const patch = { metadata: { of: 'the patch' } };
    const asked = { operation: 'updateToken', params: { id: ids[0] }, body: patch } as const;
    const telling = tell(twins, cast.author, asked);
    await delay(bodyTookMs);
    twins.clock.advance(passingMs);
    await held.query('commit');
    held.release();
    return telling;
  }

  /** The repeat of a batch. It opens the card, and then waits before it opens the other token. */
  async function repeatAcross(passingMs: number): Promise<Told> {
    const idempotencyKey = randomUUID();
    const ask = () =>
      tell(twins, cast.author, { operation: 'createTokens', body: { tokens } }, { idempotencyKey });
    await ask();
    let isOver = false;
    twins.beforeOpening(async (entity) => {
      if (entity !== `token:${ids[1]}` || isOver) return;
      isOver = true;
      await delay(bodyTookMs);
      twins.clock.advance(passingMs);
    });
    return ask().finally(() => twins.beforeOpening());
  }

  it.each([
    ['a patch', patchAcross],
    ['the repeat of a batch', repeatAcross],
  ] as const)('is not in the answer of %s', async (_name, answerAcross) => {
    const before = await answerAcross(0);
    expect(JSON.stringify(before.body)).toContain(cvc);
    await must(twins, cast.author, { operation: 'deleteTokens', body: { ids: [...ids] } });
    const { status, body } = await answerAcross(hourMs);
    expect(status).toBe(before.status);
    expect(JSON.stringify(body)).toContain(hidden.number);
    expect(JSON.stringify(body)).not.toContain(cvc);
  });
  afterEach(() => tell(twins, cast.author, { operation: 'deleteTokens', body: { ids: [...ids] } }));
});

describe('a caller whose rights change while it sends the body of', () => {
  it.each(Object.entries(asks))('%s is shown what it may see at that moment', async (_name, asked) => {
    await expectPresentRights(tellWhile, asked);
  });
});

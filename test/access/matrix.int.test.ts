import { randomUUID } from 'node:crypto';
import { can, decideTokenAccess, type Principal } from '@token-vault/access';
import type { Json, TokenPermission, Transform } from '@token-vault/contracts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { all, asks, callers, card, container, minuteMs, pages, states } from './cells.ts';
import { direct, entrances, type Asked, type Entrance, type Told } from './entrances.ts';
import { authorRights, hiddenOf } from './histories.ts';
import { createLeveller, openTwins, principalIn, type Twins } from './twins.ts';

let twins: Twins;
beforeAll(async () => {
  twins = await openTwins();
});
afterAll(() => twins.close());

async function must(author: Principal, asked: Asked): Promise<Json> {
  const [told] = await direct.ask(twins.executor, author, asked);
  if (!told || (told.status ?? 200) >= 300) throw new Error(JSON.stringify(told));
  return told.body;
}

/** One token of each state in each tenant. */
async function fill(authors: readonly (readonly [Principal, (typeof hiddenOf)[number]])[]): Promise<void> {
  const each = (of: (author: Principal, body: (id: string, more?: object) => object) => Promise<unknown>) =>
    Promise.all(
      authors.map(([author, { number, cvc }]) =>
        of(author, (id, more = {}) => ({
          id,
          type: 'card',
          data: card(number, cvc),
          containers: [container],
          ...more,
        })),
      ),
    );
  const create = (author: Principal, body: object, transactionId?: string) =>
    must(author, { operation: 'createToken', body, ...(transactionId && { transactionId }) });
  const expiresAt = new Date(twins.clock.now().getTime() + 30 * minuteMs).toISOString();
  await each(async (author, body) => {
    await create(author, body('purged'));
    await create(author, body('expired', { expires_at: expiresAt }));
  });
  twins.clock.advance(61 * minuteMs);
  await each(async (author, body) => {
    for (const id of ['live', 'patched', 'deleted', 'enlisted']) await create(author, body(id));
    await create(author, body('deduplicated', { deduplicate_token: true }));
    await create(author, body('again', { deduplicate_token: true }));
    await must(author, {
      operation: 'updateToken',
      params: { id: 'patched' },
      body: { metadata: { k: 'v' } },
    });
    await must(author, { operation: 'deleteToken', params: { id: 'deleted' } });
    const { id: transactionId } = (await must(author, { operation: 'createTransaction' })) as { id: string };
    await create(author, body('uncommitted'), transactionId);
    const change = {
      operation: 'updateToken',
      params: { id: 'enlisted' },
      body: { metadata: { k: 'v' } },
    } as const;
    await must(author, { ...change, transactionId });
  });
}

const principalOf = (name: string, tenantId: string): Principal => ({
  ...principalIn(tenantId, randomUUID(), callers[name] ?? { permissions: [], rules: [] }),
});
const accessTo = (principal: Principal, permission: TokenPermission, id: string): Transform | undefined => {
  const access = decideTokenAccess(principal, permission, { id, containers: [container] });
  return access.isGranted ? access.transform : undefined;
};

function shown(transform: Transform | undefined, id: string, { number, cvc }: (typeof hiddenOf)[number]) {
  const { cvc: _cvc, ...rest } = card(number, cvc);
  if (transform === 'reveal') return states[id]?.hasCvc ? card(number, cvc) : rest;
  return transform === 'mask' ? { ...rest, number: `XXXXXXXXXXXX${number.slice(-4)}` } : undefined;
}

/** The status that the rules of access, and nothing else, give. */
function statusOf(principal: Principal, name: string, id: string): number {
  const { permission } = asks[name] ?? { permission: 'token:read' };
  const transform = accessTo(principal, permission, id);
  if (!can(principal, permission)) return 403;
  if (!states[id]?.isThere) return 404;
  if (transform === undefined) return 403;
  if (name === 'get') return 200;
  if (states[id].isLocked) return 409;
  return transform === 'reveal' ? 200 : 403;
}

const table = entrances.flatMap((entrance) => Object.keys(callers).map((caller) => ({ entrance, caller })));

/** Pages first: patches change what is shown by a mask. */
async function toldOf(entrance: Entrance, principal: Principal): Promise<Map<string, Told[]>> {
  const told = new Map<string, Told[]>();
  for (const [name, { asked }] of Object.entries(pages))
    told.set(name, await entrance.ask(twins.executor, principal, asked));
  for (const [name, { ask }] of Object.entries(asks))
    for (const id of Object.keys(states))
      told.set(`${name} ${id}`, await entrance.ask(twins.executor, principal, ask(id)));
  return told;
}

function checkCells(
  told: Map<string, Told[]>,
  principal: Principal,
  hidden: (typeof hiddenOf)[number],
): void {
  for (const [name, { permission }] of Object.entries(pages)) {
    const visible = Object.keys(states).filter(
      (id) => states[id]?.isThere && accessTo(principal, permission, id),
    );
    for (const { status = 200, body } of told.get(name) ?? []) {
      expect([name, status]).toEqual([name, can(principal, permission) ? 200 : 403]);
      if (status !== 200) continue;
      const page = body as unknown as {
        pagination: { total_items: number };
        data: { id: string; data?: Json }[];
      };
      expect([name, page.pagination.total_items]).toEqual([name, visible.length]);
      expect(Object.fromEntries(page.data.map(({ id, data }) => [id, data]))).toEqual(
        Object.fromEntries(visible.map((id) => [id, shown(accessTo(principal, permission, id), id, hidden)])),
      );
    }
  }
  for (const name of Object.keys(asks))
    for (const id of Object.keys(states))
      for (const { status = 200, body } of told.get(`${name} ${id}`) ?? []) {
        const cell = `${name} ${id}`;
        expect([cell, status]).toEqual([cell, statusOf(principal, name, id)]);
        if (name === 'get' && status === 200)
          expect([cell, (body as { data?: Json }).data]).toEqual([
            cell,
            shown(accessTo(principal, 'token:read', id), id, hidden),
          ]);
      }
}

describe('each operation on a token of each state', () => {
  it.each(table)('by $entrance.name as $caller', async ({ entrance, caller }) => {
    const tenants = await twins.newPair();
    const [one, other] = tenants;
    await fill([
      [principalIn(one, randomUUID(), authorRights), hiddenOf[0]],
      [principalIn(other, randomUUID(), authorRights), hiddenOf[1]],
    ]);
    const levelled: Json[] = [];
    let isRevealed = false;
    for (const [index, tenantId] of tenants.entries()) {
      const principal = principalOf(caller, tenantId);
      const told = await toldOf(entrance, principal);
      checkCells(told, principal, hiddenOf[index === 0 ? 0 : 1]);
      isRevealed ||= Object.keys(states).some((id) =>
        all.some((what) => accessTo(principal, what, id) === 'reveal'),
      );
      levelled.push(createLeveller()([...told]));
    }
    if (!isRevealed) expect(levelled[1]).toEqual(levelled[0]);
  });
});

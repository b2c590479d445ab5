import { fieldsOf } from '@token-vault/test-support';
import { revisionOf, streams, TokenUpdated, type NewDataOf } from '@token-vault/contracts';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { beforeEach, expect, it } from 'vitest';
import { createTokenReplay, createTokenUse } from '../../src/index.ts';
import { noActor, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));
beforeEach(async () => {
  await vault.create({ id: 'tok', type: 'token', data: { a: 1 }, containers: ['/pci/'], mask: 'X' });
});

const altered = { code: 'record_altered', status: 500 };
const contextOf = () =>
  createRequestContext({ principal: vault.principal, traceId: 'thief', now: vault.clock.now() });

/** Appends an event as an attacker with the database could: the last content of the token with a change. */
async function forge(change: object): Promise<void> {
  const stream = streams.token(vault.principal.tenant.id, 'tok');
  const last = (await vault.events(stream)).at(-1);
  const data = { ...last?.data, ...change } as NewDataOf<'TokenUpdated'>;
  const event = contextOf().event(TokenUpdated, data);
  await vault.log.append(stream, [event], 'any');
}

it.each([
  ['another container', { containers: ['/mine/'], signature: undefined }],
  ['another mask under the old signature', { mask: '{{ data }}' }],
  ['the content of before, at a later place', {}],
])('a forged event with %s is not accepted', async (_what, change) => {
  await forge(change);
  const { log: store, keyRing, clock } = vault;
  const use = createTokenUse({ store, keyRing, clock });
  await expect(
    use.check({ tokens: new Map([['tok', 'args.a']]), ambiguous: new Map(), hasFilters: false }, contextOf()),
  ).rejects.toMatchObject(altered);
  await expect(use.open(['tok'], contextOf())).rejects.toMatchObject(altered);
  const replay = createTokenReplay({
    store,
    keyRing,
    clock,
    audit: createAuditTrail(store),
    findActor: noActor,
    expressions: createExpressions(createInlineWorkers()),
  });
  const answered = { id: 'tok', createdAt: '2030-01-01T00:00:00.000Z', at: [], by: 'create' } as const;
  await expect(
    replay.show([answered], contextOf(), {
      present: async () => contextOf(),
      isOnRecord: false,
    }),
  ).rejects.toMatchObject(altered);
  await expect(replay.facts(['tok'], contextOf())).rejects.toMatchObject(altered);
  await expect(vault.update('tok', { metadata: { a: 'b' } })).rejects.toMatchObject(altered);
  await expect(vault.remove('tok')).resolves.toBeUndefined();
});

it('every change of a token is signed at its own place', async () => {
  await vault.create({ id: 'card', type: 'card', data: { number: '4242424242424242', cvc: '123' } });
  await vault.update('card', { containers: ['/a/'] });
  const transaction = await vault.begin();
  await vault.update('card', { containers: ['/b/'] }, { transaction });
  await vault.end('commit', transaction);
  const events = await vault.events(streams.token(vault.principal.tenant.id, 'card'));
  expect(events.map((event) => revisionOf(fieldsOf(event).signature as string))).toEqual([0, 1, 2]);
  await expect(vault.update('card', { containers: ['/c/'] })).resolves.toBeDefined();
});

import { randomUUID } from 'node:crypto';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { createInlineWorkers } from '@token-vault/expressions';
import { silentLogger } from '@token-vault/observability';
import { reactBody, type Json, type Reactor, type Token } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { createInvocationOutcomes } from '../../src/index.ts';
import { Invocations } from '../../src/invocations/handlers.ts';
import { noActor, anyone, refusal, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const slow = '{% for i in (1..3000) %}{% for j in (1..3000) %}{{ i }}{% endfor %}{% endfor %}';
const toMask = <R extends object>(rule: R) => ({ ...rule, transform: 'mask' as const });
const filters = (count: number) => `{{ data${' | last4'.repeat(count)} }}`;

describe('an expression that takes too much', () => {
  it.each([
    ['mask', { mask: { a: [slow] } }, 'mask.a.0'],
    ['mask, by its filters', { mask: { a: filters(21) } }, 'mask.a'],
    ['search index', { search_indexes: ['{{ data }}', slow] }, 'search_indexes.1'],
    ['fingerprint', { fingerprint_expression: slow }, 'fingerprint_expression'],
    ['id', { id: slow }, 'id'],
    ['id, by its filters', { id: filters(30) }, 'id'],
  ])('as %s is refused by its field, and nothing is written', async (_, fields, field) => {
    const body = { type: 'token', data: 'abcdef', ...fields };
    await expect(vault.create(body)).rejects.toMatchObject(refusal('validation_failed', field));
    expect(await vault.events()).toEqual([]);
  });

  it('uses up the budget of its request, and nothing of the budget of other requests', async () => {
    const leaf = { type: 'token', data: 'abc', mask: slow };
    await expect(vault.tokenize([leaf, leaf, leaf])).rejects.toMatchObject({ code: 'validation_failed' });
    expect(
      await vault.create({ type: 'token', data: 'abc', mask: '{{ data | upcase | split: "" }}' }),
    ).toMatchObject({ data: 'abc' });
  });
});

describe('a mask that a worker evaluates', () => {
  it('is evaluated once by a write that checks it and shows it', async () => {
    const as = { ...vault.principal, rules: vault.principal.rules.map(toMask) };
    let jobs = 0;
    const workers = createInlineWorkers();
    const counting = vault.replica({ ...workers, run: (...job) => ((jobs += 1), workers.run(...job)) });
    const shows = async (write: Promise<Token>, expected: unknown, evaluations: number) => {
      expect((await write).data).toEqual(expected);
      expect(jobs).toBe(evaluations);
    };
    const id = 'masked-once';
    const options = { as, on: counting };
    const [mask, first, data] = [{ a: '{{ data | split: "" | first }}' }, 'abc', 'xyz'];
    await shows(vault.create({ id, type: 'token', data: first, mask }, options), { a: 'a' }, 1);
    await shows(vault.update(id, { data }, options), { a: 'x' }, 2);
    // The mask is not checked, so it is evaluated for the answer.
    await shows(vault.update(id, { metadata: { a: 'b' } }, options), { a: 'x' }, 3);
  });
});

describe('a message about an expression', () => {
  it('is the vault’s own text, names the position, and quotes nothing', async () => {
    const body = { type: 'token', data: 'x', mask: { a: 'x {{ data | filter4111111111111111 }}' } };
    await expect(vault.create(body)).rejects.toMatchObject({
      errors: { 'mask.a': ['There is no such filter (line 1, column 3).'] },
    });
  });
});

describe('a token without a value to fingerprint', () => {
  it.each(['fingerprint_tokens', 'deduplicate_tokens'])(
    'is created when only the setting %s asks for a fingerprint',
    async (name) => {
      await vault.newTenant({ [name]: 'true' });
      const token = await vault.create({ type: 'token', data: '' });
      expect(token).toMatchObject({ data: '' });
      expect(token.fingerprint).toBeUndefined();
      expect(token.fingerprint_expression).toBeUndefined();
      expect((await vault.create({ type: 'token', data: 'x' })).fingerprint).toBeDefined();
    },
  );

  it('is refused when the request asks for one', async () => {
    await vault.newTenant({ fingerprint_tokens: 'true' });
    for (const asked of [{ fingerprint_expression: '{{ data }}' }, { deduplicate_token: true }])
      await expect(vault.create({ type: 'token', data: '', ...asked })).rejects.toMatchObject(
        refusal('validation_failed', 'fingerprint_expression'),
      );
  });
});

describe('the arguments of a reactor', () => {
  async function react(args: Record<string, Json>): Promise<unknown> {
    const code = 'module.exports = async () => ({});';
    const manager = anyone({ tenant: vault.principal.tenant, applicationType: 'management' });
    const body = { name: 'R', code, configuration: {} };
    const reactor = (await vault.call('createReactor', { body }, { as: manager })).body as Reactor;
    const { keyRing, clock, principal, log: store } = vault;
    const outcomes = createInvocationOutcomes({ store, logger: silentLogger });
    const audit = createAuditTrail(store);
    const how = { allowsPlainHttp: false, startWithinMs: 1, findActor: noActor };
    const dependencies = { store, keyRing, clock, audit, outcomes, ...how };
    const context = createRequestContext({ principal, traceId: randomUUID(), now: clock.now() });
    try {
      return await new Invocations(dependencies).react(
        reactor.id,
        reactBody.parse({ args, callback_url: 'https://a.example' }),
        context,
      );
    } finally {
      await outcomes.close();
    }
  }

  it('name the argument and the id of each token that does not exist', async () => {
    const { id } = await vault.create({ type: 'token', data: 'x' });
    await expect(
      react({ ok: `{{ ${id} }}`, a: [{ b: '{{ gone-1 | last4 }}' }], c: '{{ gone-2 }}' }),
    ).rejects.toMatchObject({
      status: 400,
      errors: {
        'args.a.0.b': ['names a token that does not exist: gone-1'],
        'args.c': ['names a token that does not exist: gone-2'],
      },
    });
  });

  it('never refer to another token than the caller named', async () => {
    await vault.create({ type: 'token', id: 'abc', data: 1 });
    expect(await react({ a: '{{ token:abc }}', b: '{{ token: abc }}' })).toMatchObject({ status: 202 });
    await vault.create({ type: 'token', id: 'token:abc', data: 2 });
    await expect(react({ a: '{{ token:abc }}' })).rejects.toMatchObject(
      refusal('validation_failed', 'args.a'),
    );
    expect(await react({ a: "{{ token: token:abc | json: '$.data' }}", b: '{{ abc }}' })).toMatchObject({
      status: 202,
    });
  });
});

import type { Application, LogEntry, Token } from '@token-vault/contracts';
import { randomUUID } from 'node:crypto';
import { cardNumber } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startVault, type Reply, type RunningVault } from './running-vault.ts';

let vault: RunningVault;
let maker: string;

const application = async (body: object): Promise<string> => {
  const call = { method: 'POST', path: '/applications', key: vault.managementKey };
  const whole = { name: 'a', type: 'private', ...body };
  return (await vault.must<Application>(201, { ...call, body: whole })).key ?? '';
};
const ruled = (transform: string, container = '/', more: object = {}) =>
  application({
    rules: [{ priority: 1, container, transform, permissions: ['token:read', 'token:delete'], ...more }],
  });
const makeToken = async (body: object): Promise<string> =>
  (await vault.must<Token>(201, { method: 'POST', path: '/tokens', key: maker, body })).id;
async function logOf(filters: Readonly<Record<string, string>>): Promise<LogEntry[]> {
  const path = `/logs?${new URLSearchParams({ size: '100', ...filters }).toString()}`;
  return (await vault.must<{ data: LogEntry[] }>(200, { path, key: vault.managementKey })).data;
}

interface Detokenized {
  readonly data: unknown;
  readonly not_opened: readonly { id: string; reason: string }[];
}
const ask = (key: string, body: unknown, trace = 'none'): Promise<Reply> =>
  vault.call({ method: 'POST', path: '/detokenize', key, body, headers: { 'SVC-TRACE-ID': trace } });
async function detokenize(key: string, body: unknown, trace?: string): Promise<Detokenized> {
  const reply = await ask(key, body, trace);
  expect([reply.status, reply.text]).toEqual([200, expect.any(String)]);
  return reply.body as Detokenized;
}

beforeAll(async () => {
  vault = await startVault();
  maker = await application({
    permissions: ['token:create', 'token:read', 'token:update', 'token:delete', 'token:use'],
  });
});
afterAll(() => vault.stop());

describe('POST /detokenize', () => {
  it('puts tokens in place of expressions anywhere in JSON, as the rules of the caller show them', async () => {
    const number = cardNumber();
    const card = await makeToken({
      type: 'card',
      data: { number, expiration_month: 1, expiration_year: 2040 },
    });
    const text = await makeToken({ type: 'token', data: 'Ada {{ no expression }}' });
    const body = {
      list: [1, null, `{{ ${card} | json: '$.number' }}`, [`name: {{ ${text} }}, {{${text}}}`]],
      whole: `{{ ${card} }}`,
      id: `{{ token: ${card} | json: '$.id' }}`,
      [`{{ ${card} }}`]: true,
    };
    const shown = await detokenize(await ruled('reveal'), body, 'reveals');
    expect(shown).toEqual({
      data: {
        list: [1, null, number, ['name: Ada {{ no expression }}, Ada {{ no expression }}']],
        whole: { number, expiration_month: 1, expiration_year: 2040 },
        id: card,
        [`{{ ${card} }}`]: true,
      },
      not_opened: [],
    });
    const entries = await logOf({ trace_id: 'reveals' });
    expect(
      entries.map(({ entity_id, operation, transform }) => [entity_id, operation, transform]).sort(),
    ).toEqual(
      [
        [card, 'read', 'reveal'],
        [text, 'read', 'reveal'],
      ].sort(),
    );
    const masked = await ask(maker, body);
    expect(masked.text).not.toContain(number);
    expect(masked.text).not.toContain('Ada');
    expect(masked.body).toMatchObject({
      data: { list: [1, null, `XXXXXXXXXXXX${number.slice(-4)}`, ['name: , ']] },
      not_opened: [{ id: text, reason: 'redacted' }],
    });
  });

  it('names the tokens that do not open, and records each refusal', async () => {
    const here = await makeToken({ type: 'token', data: 'here', containers: ['/here/'] });
    const there = await makeToken({ type: 'token', data: 'there', containers: ['/there/'] });
    const body = [`{{ ${here} }}`, `{{ ${there} | last4 }}`, '{{ not-a-token }}'];
    const shown = await detokenize(await ruled('reveal', '/here/'), body, 'some');
    expect(shown).toEqual({
      data: ['here', null, null],
      not_opened: [
        { id: there, reason: 'forbidden' },
        { id: 'not-a-token', reason: 'not-found' },
      ],
    });
    expect(await logOf({ trace_id: 'some', operation: 'denied' })).toMatchObject([
      { entity_id: there, request: 'detokenize' },
    ]);
    const strict = await ruled('reveal', '/', { reason: 'required' });
    const refused = await detokenize(strict, [`{{ ${here} }}`]);
    expect(refused).toEqual({ data: [null], not_opened: [{ id: here, reason: 'needs-reason' }] });
    const other = { method: 'POST', path: '/detokenize', key: strict, body: [`{{ ${here} }}`] };
    const given = await vault.must(200, { ...other, headers: { 'SVC-REASON': 'ticket 5' } });
    expect(given).toEqual({ data: ['here'], not_opened: [] });
  });

  it('does not show the data of an expired or deleted token', async () => {
    const id = await makeToken({ type: 'token', data: 'gone' });
    await vault.must(204, { method: 'DELETE', path: `/tokens/${id}`, key: maker });
    const shown = await detokenize(await ruled('reveal'), [`{{ ${id} }}`]);
    expect(shown).toEqual({ data: [null], not_opened: [{ id, reason: 'not-found' }] });
  });

  it.each([
    ['an unknown filter', ['{{ abc | nothing }}']],
    ['a template', ['{{ abc }} {{ abc']],
    ['1,001 tokens', Array.from({ length: 1001 }, (_, index) => `{{ token-${index} }}`)],
    ['tags', { a: ['{{ abc | append: data }}{% for a in (1..9) %}{{ b-{{ }}{% endfor %}'] }],
  ])('refuses %s', async (_name, body) => {
    const refused = await ask(maker, body);
    expect(refused.status).toBe(400);
    expect(Object.keys((refused.body as { errors: object }).errors)[0]).toMatch(/^body/);
  });

  it('refuses an expression that could name two tokens, to those who may read the second', async () => {
    const id = `which-${randomUUID()}`;
    await makeToken({ id, type: 'token', data: 'one', containers: ['/here/'] });
    await makeToken({ id: `token:${id}`, type: 'token', data: 'other', containers: ['/there/'] });
    const body = { a: [`{{ token:${id} | json: '$.data' }}`] };
    const refused = await ask(await ruled('reveal'), body);
    expect(refused.status).toBe(400);
    expect(refused.text).toMatch(/body\.a.*two tokens/u);
    expect(refused.text).not.toContain('other');
    const shown = await detokenize(await ruled('reveal', '/here/'), body);
    expect(shown).toEqual({ data: { a: ['one'] }, not_opened: [] });
    const explicit = { a: [`{{ token: token:${id} | json: '$.data' }}`] };
    expect((await detokenize(await ruled('reveal'), explicit)).data).toEqual({ a: ['other'] });
  });

  it('needs token:read, and accepts more than one page of tokens', async () => {
    const creator = await application({ permissions: ['token:create'] });
    expect((await ask(creator, ['{{ abc }}'])).status).toBe(403);
    const many = Array.from({ length: 250 }, (_, index) => `{{ missing-${index} }}`);
    const shown = await detokenize(maker, many);
    expect(shown.not_opened).toHaveLength(250);
  });
});

import type { Application, BatchAnswer, DeleteTokensAnswer, LogEntry, Token } from '@token-vault/contracts';
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
async function logOf(filters: Readonly<Record<string, string>>): Promise<LogEntry[]> {
  const path = `/logs?${new URLSearchParams({ size: '100', ...filters }).toString()}`;
  return (await vault.must<{ data: LogEntry[] }>(200, { path, key: vault.managementKey })).data;
}
const post = (tokens: unknown, headers: Record<string, string> = {}, key = maker): Promise<Reply> =>
  vault.call({ method: 'POST', path: '/tokens/batch', key, body: { tokens }, headers });
const remove = (ids: unknown, headers: Record<string, string> = {}, key = maker): Promise<Reply> =>
  vault.call({ method: 'DELETE', path: '/tokens', key, body: { ids }, headers });
const created = (reply: Reply) => (reply.body as BatchAnswer).results;
const deleted = (reply: Reply) => (reply.body as DeleteTokensAnswer).results;
const statusesOf = (reply: Reply): number[] => created(reply).map(({ status }) => status);
const statusOf = async (id: string): Promise<number> =>
  (await vault.call({ path: `/tokens/${id}`, key: maker })).status;
const texts = (count: number, of = 'text') =>
  Array.from({ length: count }, (_, index) => ({ type: 'token', data: `${of} ${index}` }));

beforeAll(async () => {
  vault = await startVault();
  maker = await application({ permissions: ['token:create', 'token:read', 'token:delete', 'token:use'] });
});
afterAll(() => vault.stop());

describe('POST /tokens/batch', () => {
  it('creates each valid item, and answers the others with their errors', async () => {
    const number = cardNumber();
    const reply = await post([
      { type: 'card', data: { number } },
      { type: 'card', data: { number: '4242424242424241' } },
      7,
      { type: 'token', data: 'x', id: 'batch-same' },
      { type: 'token', data: 'y', id: 'batch-same', wrong: 1 },
      { type: 'token', data: 'z', mask: '{{ data | nothing }}' },
    ]);
    expect([reply.status, statusesOf(reply)]).toEqual([200, [201, 400, 400, 201, 400, 400]]);
    const [card, invalid, , , unknown] = created(reply);
    expect(card?.token).toMatchObject({ type: 'card', data: { number: `XXXXXXXXXXXX${number.slice(-4)}` } });
    expect(Object.keys(invalid?.error?.errors ?? {})).toEqual(['data.number']);
    expect(Object.keys(unknown?.error?.errors ?? {})).toEqual(['wrong']);
    expect(await statusOf(card?.token?.id ?? '')).toBe(200);
    const again = await post([{ type: 'token', data: 'x', id: 'batch-same' }]);
    expect(created(again)).toMatchObject([{ status: 409, error: { title: 'Conflict' } }]);
  });

  it('creates 1,000 tokens, and refuses more, none, and a body that is no list', async () => {
    const reply = await post(texts(1000));
    expect(new Set(statusesOf(reply))).toEqual(new Set([201]));
    expect(new Set(created(reply).map(({ token }) => token?.id)).size).toBe(1000);
    for (const faulty of [texts(1001), [], 'x', null]) expect((await post(faulty)).status).toBe(400);
  });

  it('applies the rights of each container, and records each refusal', async () => {
    const rules = [{ priority: 1, container: '/here/', transform: 'mask', permissions: ['token:create'] }];
    const narrow = await application({ rules });
    const tokens = [
      { type: 'token', data: 1, containers: ['/here/'] },
      { type: 'token', data: 2, containers: ['/there/'] },
    ];
    const reply = await post(tokens, { 'SVC-TRACE-ID': 'batch-rights' }, narrow);
    expect(statusesOf(reply)).toEqual([201, 403]);
    const entries = await logOf({ trace_id: 'batch-rights' });
    expect(entries.map(({ operation, request }) => [operation, request]).sort()).toEqual([
      ['create', 'createTokens'],
      ['denied', 'createTokens'],
    ]);
    const reader = await application({ permissions: ['token:read'] });
    expect((await post(tokens, {}, reader)).status).toBe(403);
  });

  it('finds equal data by deduplication, also within the request', async () => {
    const one = { type: 'token', data: 'the same', deduplicate_token: true };
    const reply = await post([one, one, { ...one, data: 'another' }, one]);
    expect(statusesOf(reply).sort()).toEqual([200, 200, 201, 201]);
    const ids = created(reply).map(({ token }) => token?.id);
    expect([ids[1], ids[3]]).toEqual([ids[0], ids[0]]);
  });

  it('answers a repeat with the tokens of the first request', async () => {
    const headers = { 'SVC-IDEMPOTENCY-KEY': 'batch-1' };
    const first = await post([...texts(120, 'repeat'), 7], headers);
    const second = await post([...texts(120, 'repeat'), 7], headers);
    expect(second.body).toEqual(first.body);
    expect(statusesOf(second)).toEqual([...Array<number>(120).fill(201), 400]);
  });

  it('creates each token once, for any number of concurrent repeats', async () => {
    const headers = { 'SVC-IDEMPOTENCY-KEY': 'batch-16', 'SVC-TRACE-ID': 'batch-16' };
    const same = { type: 'token', data: 'the same of sixteen', deduplicate_token: true };
    const tokens = [...texts(18, 'sixteen'), same, same];
    const replies = await Promise.all(Array.from({ length: 16 }, () => post(tokens, headers)));
    const answered = replies.filter(({ status }) => status === 200);
    // Others came while the first was under way.
    expect(replies.filter(({ status }) => status !== 200 && status !== 409)).toEqual([]);
    expect(answered.length).toBeGreaterThan(0);
    for (const reply of answered) expect(reply.body).toEqual(answered[0]?.body);
    expect((await post(tokens, headers)).body).toEqual(answered[0]?.body);
    const creates = (await logOf({ trace_id: 'batch-16', operation: 'create', entity_type: 'token' })).length;
    expect(creates).toBe(19);
  });

  it('belongs to a transaction as a whole', async () => {
    const opened = { method: 'POST', path: '/transactions', key: maker };
    const { id } = await vault.must<{ id: string }>(201, opened);
    const headers = { 'SVC-TRANSACTION-ID': id };
    const reply = await post(texts(30, 'enlisted'), headers);
    const ids = created(reply).map(({ token }) => token?.id ?? '');
    expect(await statusOf(ids[0] ?? '')).toBe(404);
    expect(deleted(await remove([ids[1]], headers))).toMatchObject([{ status: 204 }]);
    await vault.must(200, { method: 'POST', path: `/transactions/${id}/commit`, key: maker });
    expect([await statusOf(ids[0] ?? ''), await statusOf(ids[1] ?? '')]).toEqual([200, 404]);
    expect((await post(texts(1), headers)).status).toBe(409);
  });
});

describe('DELETE /tokens', () => {
  it('deletes each token that is there, and answers each id', async () => {
    const made = created(await post(texts(250, 'deleted'))).map(({ token }) => token?.id ?? '');
    const reply = await remove([...made, 'never-made']);
    expect(deleted(reply).map(({ id }) => id)).toEqual([...made, 'never-made']);
    expect(deleted(reply).map(({ status }) => status)).toEqual([...made.map(() => 204), 404]);
    expect(await statusOf(made[249] ?? '')).toBe(404);
    expect(deleted(await remove(made)).every(({ status }) => status === 404)).toBe(true);
  });

  it('applies the rights of each container, and records each refusal with its token', async () => {
    const there = { type: 'token', data: 1, containers: ['/there/'] };
    const here = { ...there, containers: ['/here/'] };
    const [kept, gone] = created(await post([there, here])).map(({ token }) => (token as Token).id);
    const rules = [{ priority: 1, container: '/here/', transform: 'mask', permissions: ['token:delete'] }];
    const narrow = await application({ rules });
    const reply = await remove([kept, gone], { 'SVC-TRACE-ID': 'delete-rights' }, narrow);
    expect(deleted(reply).map(({ status }) => status)).toEqual([403, 204]);
    expect(await logOf({ trace_id: 'delete-rights', operation: 'denied' })).toMatchObject([
      { entity_id: kept, request: 'deleteTokens' },
    ]);
    expect(await statusOf(kept ?? '')).toBe(200);
  });

  it('refuses no ids, too many, and repeated ones', async () => {
    const many = Array.from({ length: 1001 }, (_, index) => `id-${index}`);
    for (const faulty of [[], many, ['abc', 'abc'], 'abc']) expect((await remove(faulty)).status).toBe(400);
    expect((await vault.call({ method: 'DELETE', path: '/tokens', key: maker })).status).toBe(400);
  });
});

describe('an object of POST /tokenize that becomes a token', () => {
  const misspelt = { card: { type: 'token', data: 'x', expire_at: '2033-01-01' } };
  const tokenize = (headers: Record<string, string>) =>
    vault.call({ method: 'POST', path: '/tokenize', key: maker, body: misspelt, headers });

  it('with an unknown field is refused, with the nearest known name', async () => {
    const refused = await tokenize({});
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('expires_at')]);
    expect(refused.body).toMatchObject({ errors: { 'card.expire_at': [expect.any(String)] } });
  });

  it('may have unknown fields for a caller that prefers them to be ignored', async () => {
    const made = await tokenize({ Prefer: 'handling=lenient' });
    expect([made.status, made.body]).toEqual([
      200,
      { card: expect.objectContaining({ type: 'token' }) as unknown },
    ]);
  });
});

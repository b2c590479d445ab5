import type { Token } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { beforeAll, describe, expect, it } from 'vitest';
import { startReceiver } from '../e2e/receiver.ts';
import { makeProxyOf, nowhere } from '../world/proxies.ts';
import { repeatable } from '../world/repeats.ts';
import { permissions, rule } from '../world/rules.ts';
import { makeSession } from '../world/sessions.ts';
import { functionOf, useVault, type Caller } from '../world/vault.ts';

/**
 * A reactor makes tokens of data that the caller of the run may not see. The caller is shown these tokens by its rights to read them, and
 * cannot choose how they are shown.
 */
const vault = useVault();
const secret = '493827165038';
let tokenId: string;
/** May do anything with every token. */
let owner: Caller;
let callers: Record<'uses' | 'uses and reads masked', Caller>;

beforeAll(async () => {
  await vault.setTenant({ fingerprint_tokens: 'true', proxy_destinations: nowhere });
  owner = await vault.makeApplication({ rules: [rule({ permissions: [...permissions, 'token:delete'] })] });
  const body = { type: 'token', data: secret };
  tokenId = (await owner.client.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body.id;
  callers = {
    uses: await vault.makeApplication({ permissions: ['token:use'] }),
    'uses and reads masked': await vault.makeApplication({ permissions: ['token:use', 'token:read'] }),
  };
});

async function outputOf(caller: Caller, code: string, args: object) {
  const id = await vault.makeReactor(functionOf(code));
  const headers = { 'SVC-IDEMPOTENCY-KEY': crypto.randomUUID() };
  const ask = () =>
    caller.client.request<{ tokens?: object }>('POST', `/reactors/${id}/react`, { body: { args }, headers });
  return [await ask(), await ask()];
}

const texts = { quoted: "{{ '{{' }} data }}", part: "{{ '{{' }} data | slice: 0, 6 }}" };

/** What a caller may write into an argument that code passes on as a token. */
const given: Readonly<Record<string, object>> = {
  mask: { mask: texts.quoted },
  'mask of a part': { mask: { a: texts.part } },
  'mask with a tag': { mask: '{% echo data %}' },
  id: { id: `shown-${texts.quoted}` },
};

describe.each(['uses', 'uses and reads masked'] as const)('a caller that %s', (name) => {
  it.each(Object.keys(given))('cannot bring an expression as %s into the output', async (field) => {
    const pan = { type: 'token', data: `{{ ${tokenId} }}`, ...given[field] };
    for (const { text } of await outputOf(callers[name], 'return { tokenize: { pan: args.pan } };', { pan }))
      expect(text).not.toMatch(secret.slice(0, 6));
  });
});

it('an output is shown, and shown again, by the rights of the caller to read it', async () => {
  const code = `return { tokenize: { type: 'us_bank_account_number', data: args.account } };`;
  const args = { account: `{{ ${tokenId} | slice: 0, 4 }}` };
  for (const { status, body } of await outputOf(callers.uses, code, args)) {
    expect(status).toBe(200);
    expect(body.tokens).toMatchObject({ id: expect.any(String) as string, type: 'us_bank_account_number' });
    expect(body.tokens).not.toHaveProperty('data');
    expect(body.tokens).not.toHaveProperty('fingerprint');
  }
  for (const { body } of await outputOf(callers['uses and reads masked'], code, args))
    expect(body.tokens).toMatchObject({
      data: secret.slice(0, 4),
      fingerprint: expect.any(String) as string,
    });
});

it('an output that a token has already shows no more of that token', async () => {
  const code = `return { tokenize: { type: 'token', data: args.a, deduplicate_token: true } };`;
  for (const { body } of await outputOf(callers.uses, code, { a: `{{ ${tokenId} }}` })) {
    expect(body.tokens).toMatchObject({ id: tokenId, type: 'token' });
    for (const field of ['data', 'fingerprint', 'containers']) expect(body.tokens).not.toHaveProperty(field);
  }
});

it('code with expressions of its own sets the mask of its output', async () => {
  const code = `return { tokenize: { type: 'token', data: args.a, mask: '{{ data | reveal_last: 2 }}' } };`;
  const [first] = await outputOf(callers['uses and reads masked'], code, { a: `{{ ${tokenId} }}` });
  expect(first?.body.tokens).toMatchObject({ data: 'XXXXXXXXXX38' });
});

/** Code that an author writes who takes texts, not objects, from the caller. The caller's text is the id of a new token. */
const taking: Readonly<Record<string, string>> = {
  'creates a token': `const { id } = await svc.tokens.create({ type: 'token', id: 'ref-' + String(args.text), data: args.a });
    return { raw: id };`,
  'creates many tokens': `return {
      raw: await svc.tokens.createMany({
        tokens: [{ type: 'token', id: 'ref-' + String(args.text), data: args.a }],
      }),
    };`,
  tokenizes: `const { id } = await svc.tokenize({ type: 'token', id: 'ref-' + String(args.text), data: args.a });
    return { raw: id };`,
  'changes a token': `const { id } = await svc.tokens.create({ type: 'token', data: args.a });
    const { mask } = await svc.tokens.update(id, { mask: String(args.text) });
    return { raw: mask };`,
  'has an output with a mask of its own': `return {
      tokenize: { type: 'token', id: 'ref-' + String(args.text), data: args.a, mask: '{{ data | reveal_last: 2 }}' },
    };`,
};

it.each(Object.keys(taking))('a text of the caller is no expression in code that %s', async (what) => {
  const permissions = ['token:create', 'token:read', 'token:update'];
  const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions }];
  const application = await vault.makeApplication({ permissions: ['token:use'], rules });
  const id = await vault.makeReactor(functionOf(taking[what] ?? ''), { application });
  const body = { args: { text: texts.quoted, a: `{{ ${tokenId} }}` } };
  const { client } = callers['uses and reads masked'];
  const { text } = await client.request('POST', `/reactors/${id}/react`, { body });
  // No id may have braces. A mask may.
  expect(text).toMatch(
    what === 'changes a token' ? /"raw":"{{ '{{' }} data }}"/ : /status 400|An id must have/,
  );
  expect(text).not.toMatch(secret);
});

describe('a text of the caller that begins as an expression of the author and goes on behind its }}', () => {
  const mask = `{{ data | reveal_last: 4 | prepend: '{{' | append: '}}' }}`;
  const text = mask.replace(
    / }}$/,
    ` | replace: '}}', data | slice: ${secret.length + 2}, ${secret.length} }}`,
  );
  const code = (given: string) =>
    functionOf(`const { text, data } = ${given};
      return { raw: await svc.tokens.create({ type: 'token', data, mask: ${JSON.stringify(mask)}, id: 'ref-' + text }) };`);
  const args = { text: text.replaceAll('{{', "{{ '{{' }}") };

  it.each([
    [
      'a reactor',
      async (application: Caller) =>
        `/reactors/${await vault.makeReactor(code('args'), { application })}/react`,
    ],
    ['a proxy', ({ id }: Caller) => makeProxyOf(vault.manager, id, code('args.body.args'))],
  ])('is no expression in code of %s', async (_what, makePath) => {
    const path = await makePath(await vault.makeApplication({ permissions: ['token:create'] }));
    const body = { args: { ...args, data: `{{ ${tokenId} }}` } };
    const { text: answer } = await callers.uses.client.request('POST', path, { body });
    expect(answer).toMatch(/status 400|An id must have/);
    expect(answer).not.toContain(secret);
  });
});

it('code copies a token with its mask', async () => {
  const permissions = ['token:create', 'token:read'];
  const application = await vault.makeApplication({ permissions });
  const writer = await vault.makeApplication({ permissions });
  const original = { type: 'token', data: 'abcdefgh', mask: '{{ data | reveal_last: 2 }}' };
  const made = await writer.client.expect<{ id: string }>(201, 'POST', '/tokens', { body: original });
  const code = `const { mask } = await svc.tokens.retrieve(args.id);
    return { raw: await svc.tokens.create({ type: 'token', data: '12345678', mask }) };`;
  const id = await vault.makeReactor(functionOf(code), { application });
  const body = { args: { id: made.body.id } };
  const { body: answer } = await callers.uses.client.request<{ raw?: { mask: string } }>(
    'POST',
    `/reactors/${id}/react`,
    { body },
  );
  expect(answer.raw?.mask).toBe(original.mask);
});

const account = `return { tokenize: { type: 'us_bank_account_number', data: args.a } };`;
const using = rule({ permissions: ['token:use'], priority: 9 });
const reading = (changes: object = {}) =>
  rule({ permissions: ['token:read'], transform: 'mask', ...changes });

/** What the receiver is sent at once, and again after the change. */
async function deliveredAgain<Body>(
  by: Caller,
  reactorId: string,
  change: (first: Body) => Promise<unknown>,
) {
  const receiver = await startReceiver();
  receiver.plan(500);
  const body = { args: { a: `{{ ${tokenId} | slice: 0, 4 }}` }, callback_url: receiver.url };
  const sent = async (nth: number) => {
    const text = async () => receiver.deliveries[nth - 1]?.text;
    return JSON.parse(await waitUntil(text, { timeoutMs: 15_000, what: `delivery ${nth}` })) as Body;
  };
  try {
    const { headers } = await by.client.expect(202, 'POST', `/reactors/${reactorId}/react`, { body });
    const first = await sent(1);
    await change(first);
    await vault.manager.expect(202, 'POST', `/invocations/${headers.get('svc-invocation-id')}/redeliver`);
    return [first, await sent(2)] as const;
  } finally {
    await receiver.close();
  }
}

interface Changed {
  readonly id: string;
  readonly grant: (...rules: readonly object[]) => Promise<unknown>;
}
const patched = (id: string, body: object) => owner.client.expect(200, 'PATCH', `/tokens/${id}`, { body });

const withdraw = ({ grant }: Changed) => grant(using);
const changes: readonly (readonly [name: string, change: (of: Changed) => Promise<unknown>])[] = [
  ['nothing', async () => undefined],
  ['the right to read is withdrawn', withdraw],
  ['the right to read is narrowed', ({ grant }) => grant(reading({ container: '/general/' }), using)],
  ['a reason is required', ({ grant }) => grant(reading({ reason: 'required' }), using)],
  ['the rule is redact', ({ grant }) => grant(reading({ transform: 'redact' }), using)],
  ['others move the token', ({ id }) => patched(id, { containers: ['/elsewhere/'] })],
  ['others remove its mask', ({ id }) => patched(id, { mask: null })],
];
const readable = reading({ container: '/bank/' });

const authorizedBy = async (authorizer: Caller): Promise<Caller> => {
  const collector = await vault.makeApplication({ type: 'public', permissions: ['token:create'] });
  const granted = { permissions: ['token:read', 'token:use'] };
  return { ...authorizer, client: await makeSession(collector.client, authorizer.client, granted) };
};

/** The caller has the rights of an application, which the change may narrow. */
async function comparedWithRequest(
  change: (of: Changed) => Promise<unknown>,
  callerOf: (application: Caller) => Promise<Caller>,
) {
  const application = await vault.makeApplication({ rules: [readable, using] });
  const caller = await callerOf(application);
  const grant = (...rules: readonly object[]) =>
    vault.manager.expect(200, 'PUT', application.path, { body: { name: 'a', rules } });
  const reactorId = await vault.makeReactor(functionOf(account));
  const [first, second] = await deliveredAgain<{ tokens: Token }>(caller, reactorId, ({ tokens }) =>
    change({ id: tokens.id, grant }),
  );
  const { id, type, tenant_id, created_by, created_at } = first.tokens;
  const logged = await vault.logOf({ entity_id: id, operation: 'read' });
  const { status, body } = await caller.client.request<Token>('GET', `/tokens/${id}`);
  const expected = status === 200 ? body : { id, type, tenant_id, created_by, created_at };
  return { first: first.tokens, second: second.tokens, expected, logged };
}

describe('an output that is delivered again', () => {
  it.concurrent.each([
    ...changes.map(([name, change]) => [name, change, async (of: Caller) => of] as const),
    ['the authorizer of a session has no right to read', withdraw, authorizedBy] as const,
  ])('is shown as a request would show it, and is in the log: %s', async (name, change, callerOf) => {
    const { first, second, expected, logged } = await comparedWithRequest(change, callerOf);
    const fingerprint = expect.any(String) as string;
    expect(first).toMatchObject({ data: secret.slice(0, 4), fingerprint });
    expect(second).toEqual(expected);
    expect('data' in second).toBe(name === 'nothing');
    expect(logged.map(({ transform, request }) => [transform, request])).toEqual([
      [name === 'nothing' ? 'mask' : 'redact', 'react'],
      ['mask', 'react'],
    ]);
  });
});

it('of an output that is gone a delivery shows that it was there, and the rest of the result', async () => {
  const caller = callers['uses and reads masked'];
  const id = await vault.makeReactor(functionOf(account.replace('return {', "return { raw: 'done',")));
  const [first, second] = await deliveredAgain<{ tokens: Token }>(caller, id, ({ tokens }) =>
    owner.client.expect(204, 'DELETE', `/tokens/${tokens.id}`),
  );
  const { type, tenant_id, created_by, created_at } = first.tokens;
  const tokens = { id: first.tokens.id, type, tenant_id, created_by, created_at };
  expect(second).toEqual({ raw: 'done', tokens });
});

it.concurrent.each(['uses', 'uses and reads masked'] as const)(
  'is delivered at once while others change its output all the time, to a caller that %s',
  async (name) => {
    const id = `changed-${crypto.randomUUID()}`;
    const changing = await vault.makeApplication({ type: 'public', permissions: ['token:update'] });
    const code = `return { raw: 'done', tokenize: { type: 'token', id: '${id}', data: 'abc', mask: '{{ data }}' } };`;
    const reactorId = await vault.makeReactor(functionOf(code));
    const receiver = await startReceiver();
    let isOver = false;
    const changeAgainAndAgain = async (_: unknown, writer: number) => {
      for (let n = 0; !isOver; n += 1)
        await changing.client.request('PATCH', `/tokens/${id}`, {
          body: { metadata: { n: `${writer}-${n}` } },
        });
    };
    const writers = Array.from({ length: 4 }, changeAgainAndAgain);
    const body = { args: {}, callback_url: receiver.url };
    const { client } = callers[name];
    const firstAttempt = async () => {
      const { headers } = await client.expect(202, 'POST', `/reactors/${reactorId}/react`, { body });
      const path = `/invocations/${headers.get('svc-invocation-id')}`;
      const ended = async () => {
        const { delivery } = (await vault.manager.expect<{ delivery?: Delivered }>(200, 'GET', path)).body;
        return delivery?.attempts.length ? delivery : undefined;
      };
      return waitUntil(ended, { timeoutMs: 15_000, what: 'the first attempt' });
    };
    const delivery = await firstAttempt().finally(async () => {
      isOver = true;
      await Promise.all(writers);
      await receiver.close();
    });
    expect(delivery).toMatchObject({ state: 'delivered', attempts: [{ number: 1 }] });
    const result = JSON.parse(receiver.deliveries[0]?.text ?? '') as { raw: string; tokens: Token };
    expect(result).toMatchObject({ raw: 'done', tokens: { id, type: 'token' } });
    if (name === 'uses and reads masked') return;
    // A change of what is not shown does not make the result again.
    expect(await vault.logOf({ entity_id: id, operation: 'read', request: 'react' })).toHaveLength(1);
  },
);

interface Delivered {
  readonly state: string;
  readonly attempts: readonly object[];
}

describe('what an output showed before the right to read was withdrawn', () => {
  const duplicate = `return { tokenize: { type: 'token', data: args.a, deduplicate_token: true } };`;
  const inner = async (reader: Caller) => {
    const id = await vault.makeReactor(functionOf(account));
    const code = `return { raw: (await svc.reactors.react('${id}', { args })).tokens };`;
    return vault.makeReactor(functionOf(code), { application: reader });
  };
  const withdrawFrom =
    ({ path }: Caller) =>
    async () => {
      await vault.manager.expect(200, 'PUT', path, { body: { name: 'a', permissions: ['token:use'] } });
    };
  const newReader = () => vault.makeApplication({ permissions: ['token:use', 'token:read'] });

  it('is shown neither again nor in a delivery when other code asked for it', async () => {
    const reader = await newReader();
    const id = await inner(reader);
    const args = { a: `{{ ${tokenId} | slice: 0, 4 }}` };
    const again = repeatable<{ raw: Token }>(callers.uses.client, 'POST', `/reactors/${id}/react`, { args });
    expect((await again()).body.raw.data).toBe(secret.slice(0, 4));
    const [first, second] = await deliveredAgain<{ raw: Token }>(callers.uses, id, withdrawFrom(reader));
    expect(first.raw.data).toBe(secret.slice(0, 4));
    expect(second).toMatchObject({ status: 403, detail: 'Forbidden' });
    expect(JSON.stringify(second)).not.toContain(first.raw.id);
    expect((await again()).status).toBe(403);
  });

  it('is shown neither again nor in a delivery of a token that was there', async () => {
    const reader = await newReader();
    const data = secret.slice(0, 4);
    const body = { type: 'token', data, deduplicate_token: true };
    const { id } = (await owner.client.expect<Token>(201, 'POST', '/tokens', { body })).body;
    const reactorId = await vault.makeReactor(functionOf(duplicate));
    const path = `/reactors/${reactorId}/react`;
    const args = { a: `{{ ${tokenId} | slice: 0, 4 }}` };
    const again = repeatable<{ tokens: Token }>(reader.client, 'POST', path, { args });
    expect((await again()).body.tokens).toMatchObject({ id, containers: expect.any(Array) as string[] });
    const [first, second] = await deliveredAgain<{ tokens: Token }>(reader, reactorId, withdrawFrom(reader));
    expect(first.tokens).toMatchObject({ id, fingerprint: expect.any(String) as string });
    const { type, tenant_id } = first.tokens;
    expect(second.tokens).toEqual({ id, type, tenant_id });
    expect((await again()).status).toBe(403);
  });
});

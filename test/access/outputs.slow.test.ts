import { beforeAll, describe, expect, it } from 'vitest';
import { functionOf, useVault, type Caller } from '../world/vault.ts';

/**
 * A reactor makes tokens of data that the caller of the run may not see. The caller is shown these tokens by its rights to read them, and
 * cannot choose how they are shown.
 */
const vault = useVault();
const secret = '493827165038';
let tokenId: string;
let callers: Record<'uses' | 'uses and reads masked', Caller>;

beforeAll(async () => {
  await vault.setTenant({ fingerprint_tokens: 'true' });
  const writer = await vault.makeApplication({ permissions: ['token:create'] });
  const body = { type: 'token', data: secret };
  tokenId = (await writer.client.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body.id;
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

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

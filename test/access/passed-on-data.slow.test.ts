import type { Application, Reactor } from '@token-vault/contracts';
import {
  type Client,
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeProxyOf, nowhere } from './proxy-code.ts';

// Data that code passes on is no expression: the caller, a stored token, another server and another reactor can have no token read by the
// rights of the code's application (the confused deputy).

const secret = 'the secret of somebody else';
const other = 'foreign-token-1';
const expression = `{{ ${other} }}`;

let dataDir: string;
let manager: Client;
let owner: Client;
/** May use nothing but what is in /mine/. */
let caller: Client;
let ownerId: string;
/** Answers every request with the expression. */
let server: Server;

async function application(container: string): Promise<{ readonly id: string; readonly client: Client }> {
  const permissions = ['token:create', 'token:read', 'token:search', 'token:use'];
  const rules = [{ description: 'of the test', priority: 1, container, transform: 'reveal', permissions }];
  const body = { name: 'a', type: 'private', rules };
  const made = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
  return { id: made.id, client: manager.withKey(made.key ?? '') };
}

const codeOf = (code: string): string => `module.exports = async ({ args, svc }) => { ${code} }`;

/** Its code acts by the rights of the owner. */
async function reactor(code: string): Promise<string> {
  const body = { name: 'r', configuration: {}, code: codeOf(code), application: { id: ownerId } };
  return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
}

const invoke = async (id: string, args: object): Promise<unknown> =>
  (await caller.expect<{ raw: unknown }>(200, 'POST', `/reactors/${id}/react`, { body: { args } })).body.raw;

let innerId: string;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  const vault = await startStandaloneProcess({ dataDir, env: { VAULT_EGRESS_ALLOW: '127.0.0.0/8' } });
  manager = vault.client();
  const settings = { proxy_destinations: nowhere };
  await manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'tenant', settings } });
  ({ id: ownerId, client: owner } = await application('/'));
  caller = (await application('/mine/')).client;
  const body = { id: other, type: 'token', data: secret, containers: ['/foreign/'] };
  await owner.expect(201, 'POST', '/tokens', { body });
  innerId = await reactor('return { raw: { got: args.text } };');
  server = createServer((_request, response) => response.end(JSON.stringify({ text: expression })));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  server.close();
  await removeDataDirectory(dataDir);
});

/** The ways of a text to code, all of which give it as `text`. */
const sources: Readonly<
  Record<string, { readonly read: () => string; readonly args: () => Promise<object> }>
> = {
  'an argument': {
    read: () => 'args.text',
    // The expression of the caller is evaluated: `{{` as text.
    args: async () => Promise.resolve({ text: `{{ '{{' }} ${other} }}` }),
  },
  'an argument in JSON': {
    read: () => 'JSON.parse(args.json).text',
    args: async () =>
      Promise.resolve({ json: JSON.stringify({ text: expression }).replace('{{', '\\u007b\\u007b') }),
  },
  'the data of a token that the caller made': {
    read: () => '(await svc.tokens.retrieve(args.id)).data',
    args: async () => {
      const body = { type: 'token', data: expression, containers: ['/mine/'] };
      return { id: (await caller.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body.id };
    },
  },
  'the answer of another server': {
    read: () => '(await (await fetch(args.url)).json()).text',
    args: async () => Promise.resolve({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }),
  },
};

/** What code does with the text. The result is the text, unless it was evaluated. */
const uses: Readonly<Record<string, string>> = {
  'another reactor': '(await svc.reactors.react(args.inner, { args: { text } })).raw.got',
  detokenize: '(await svc.detokenize({ text })).data.text',
};

describe.each(Object.entries(sources))('%s that code passes on', (_name, { read, args }) => {
  it.each(Object.entries(uses))('to %s is no expression', async (_use, use) => {
    const id = await reactor(`const text = ${read()}; return { raw: { got: ${use} } };`);
    expect(await invoke(id, { ...(await args()), inner: innerId })).toEqual({ got: expression });
  });
});

it('Data beside an expression of the code is none; the expression of the code is evaluated', async () => {
  const inner = await reactor('return { raw: args };');
  const id = await reactor(`
    const passed = { own: '{{ ${other} }}', mixed: args.text + ': {{ ${other} | size }}' };
    return { raw: (await svc.reactors.react('${inner}', { args: passed })).raw };`);
  expect(await invoke(id, { text: `{{ '{{' }} ${other} | upcase }}` })).toEqual({
    own: secret,
    mixed: `{{ ${other} | upcase }}: ${secret.length}`,
  });
});

it('The request of a proxy that its code passes on holds no expression', async () => {
  const code = codeOf(`return { raw: (await svc.detokenize({ got: args.body.text })).data };`);
  const path = await makeProxyOf(manager, ownerId, code);
  const body = { text: `{{ '{{' }} ${other} }}` };
  expect((await caller.expect(200, 'POST', path, { body })).body).toEqual({ got: expression });
});

import { type Client, waitUntil } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeProxyOf, nowhere } from '../world/proxies.ts';
import { useReceiver } from '../world/receivers.ts';
import { repeatable } from '../world/repeats.ts';
import { rule } from '../world/rules.ts';
import { makeSession } from '../world/sessions.ts';
import { type Caller, functionOf, useVault } from '../world/vault.ts';

// The author of a text that code passes on (the caller, of a stored token, another server) can have no token read by the rights of the code's
// application (the confused deputy). Code that writes no expressions passes on data; an expression of other code names tokens that the
// callers of the run may use, too.

const secret = 'the secret of somebody else';
const other = 'foreign-token-1';
const expression = `{{ ${other} }}`;

const vault = useVault();
const { manager } = vault;
const receiver = useReceiver(beforeEach);
let owner: Caller;
/** May use nothing but what is in /mine/. */
let caller: Caller;
/** The same by its conditions; its authorizer may use everything. */
let session: Client;
/** Answers requests with the expression, and holds those to `/hold`. */
let server: Server;
const asked: string[] = [];
const held: ServerResponse[] = [];
const answering = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;

/** Its code acts by the rights of the owner. */
const reactor = (code: string): Promise<string> => vault.makeFunction(code, { application: owner });

const invoke = async (id: string, args: object): Promise<unknown> =>
  (await caller.client.expect<{ raw: unknown }>(200, 'POST', `/reactors/${id}/react`, { body: { args } }))
    .body.raw;

let innerId: string;
const missLimit = 2;
beforeEach(() =>
  vault.setTenant({
    proxy_destinations: `${nowhere},${answering().slice(0, -1)}`,
    data_misses_per_minute: String(missLimit),
    security_webhook_url: receiver.url,
  }),
);

async function makeToken(data: unknown, container = '/mine/'): Promise<string> {
  const body = { type: 'token', data, containers: [container] };
  return (await owner.client.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body.id;
}

const move = (id: string) =>
  owner.client.expect(200, 'PATCH', `/tokens/${id}`, {
    body: { containers: ['/foreign/'] },
    headers: { 'Content-Type': 'application/merge-patch+json' },
  });

/** A text whose expression the vault does not evaluate as an argument. Code evaluates it. */
const quoted = (named: string) => `{{ '{{' }} ${named} }}`;

beforeAll(async () => {
  owner = await vault.makeApplication({ rules: [rule()] });
  caller = await vault.makeApplication({ rules: [rule({ container: '/mine/' })] });
  const conditions = [{ attribute: 'container', operator: 'starts_with', value: '/mine/' }];
  const rules = [rule({ container: undefined, conditions, permissions: ['token:read', 'token:use'] })];
  const opener = await vault.makeApplication({ type: 'public', permissions: ['token:create'] });
  session = await makeSession(opener.client, owner.client, { rules });
  const body = { id: other, type: 'token', data: secret, containers: ['/foreign/'] };
  await owner.client.expect(201, 'POST', '/tokens', { body });
  innerId = await reactor('return { raw: { got: args.text } };');
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    if (request.url === '/hold') held.push(response);
    else response.end(JSON.stringify({ text: expression }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(() => server.close());

/** The sources from which code gets a text. `args` gives the arguments, `read` the expression of the code for the text. */
const sources: Readonly<
  Record<string, { readonly read: () => string; readonly args: () => Promise<object> }>
> = {
  'an argument': {
    read: () => 'args.text',
    // The vault evaluates the expressions of the caller. This one gives the text `{{`.
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
      return { id: (await caller.client.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body.id };
    },
  },
  'the answer of another server': {
    read: () => '(await (await fetch(args.url)).json()).text',
    args: async () => Promise.resolve({ url: answering() }),
  },
};

/** The operations to which code passes the text. Each gives the text back, unless the text was evaluated. */
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

/** Changes of the text by code. Each makes an expression out of a text that was none; the caller has no right to the token that it names. */
const changes: Readonly<Record<string, readonly [change: string, text: string]>> = {
  nothing: ['text', `{{ '{{' }} ${other} }}`],
  'lower case': ['text.toLowerCase()', `{{ '{{' }} ${other.toUpperCase()} }}`],
  'joined parts': ["text.split('~').join('')", `{~{ ${other} }}`],
  'normal form': ["text.normalize('NFKC')", `\uff5b\uff5b ${other} \uff5d\uff5d`],
  'an id in an expression of the code': ['`{{ ${text} }}`', other],
};

describe('A text that code with expressions of its own passes on', () => {
  it.each(Object.entries(changes))(
    'with %s names no token that its caller may not use',
    async (_n, [change, text]) => {
      const code = (use: string) =>
        `const text = ((text) => ${change})(args.text); return { raw: { got: ${use} } };`;
      for (const use of Object.values(uses)) {
        const id = await reactor(`/* {{ */ ${code(use)}`);
        const path = `/reactors/${id}/react`;
        const body = { args: { text, inner: innerId } };
        const answer = await caller.client.request<{ errors?: unknown }>('POST', path, { body });
        expect(JSON.stringify(answer.body)).not.toContain(secret);
        expect(answer).toMatchObject({
          status: 500,
          body: { errors: { error: ['The service answered with status 403'] } },
        });
        // The same code for a caller that may use the token.
        expect(await owner.client.request('POST', path, { body })).toMatchObject({
          status: 200,
          body: { raw: { got: secret } },
        });
      }
    },
  );
});

describe.each(['redact', 'mask'])('A rule that grants token:use with the transform %s', (transform) => {
  const userOf = (application: object) => vault.makeApplication({ rules: [rule(application)] });
  const using = { container: '/mine/', transform, permissions: ['token:use'] };
  const run = async ({ client }: Caller, id: string) => {
    const body = { args: { text: quoted(await makeToken(secret)), inner: innerId } };
    return (await client.expect<{ raw: unknown }>(200, 'POST', `/reactors/${id}/react`, { body })).body.raw;
  };

  it.each(Object.entries(uses))('lets code use a token of its caller by %s', async (_use, use) => {
    const id = await reactor(`/* {{ */ const text = args.text; return { raw: { got: ${use} } };`);
    expect(await run(await userOf(using), id)).toEqual({ got: secret });
  });

  it('lets code of such an application use a token for another reactor', async () => {
    const code = `/* {{ */ const text = args.text; return { raw: { got: ${uses['another reactor']} } };`;
    const id = await vault.makeFunction(code, { application: await userOf(using) });
    expect(await run(owner, id)).toEqual({ got: secret });
  });
});

/** Code that gets the data of a token by a text of the caller, waits, sends the data to a server, and answers with it. */
const ways: Readonly<Record<string, string>> = {
  detokenize: `const got = (await svc.detokenize({ text })).data.text;
    await fetch(args.url + 'hold'); await fetch(args.url + 'sent?' + encodeURIComponent(got)); return { raw: { got } };`,
  'another reactor': `const got = (await svc.reactors.react(args.inner, { args: { text } })).raw.got;
    await fetch(args.url + 'hold'); await fetch(args.url + 'sent?' + encodeURIComponent(got)); return { raw: { got } };`,
  'another reactor that acts': `await svc.reactors.react(args.acting, { args: { text, url: args.url } }); return {};`,
};

/** The callers of code that writes expressions. Both may use what is in /mine/. */
const callers: Readonly<Record<string, () => Client>> = {
  'an application': () => caller.client,
  'a session': () => session,
};
const waysOfCallers = Object.keys(callers).flatMap((by) =>
  Object.keys(ways).map((way) => [by, way] as const),
);

describe('A token that an expression in a text of the caller names', () => {
  it.each(waysOfCallers)('of %s by %s, goes no further once the caller may not use it', async (by, way) => {
    const client = callers[by]?.() as Client;
    const acting = await reactor(`const got = args.text;
      await fetch(args.url + 'hold'); await fetch(args.url + 'sent?' + encodeURIComponent(got)); return {};`);
    const id = await reactor(`/* {{ */ const text = args.text.toLowerCase(); ${ways[way]}`);
    const path = `/reactors/${id}/react`;
    const card = await makeToken(secret);
    const args = { text: quoted(card), url: answering(), inner: innerId, acting };
    const run = async (key: string, whileHeld: () => Promise<unknown>) => {
      asked.length = 0;
      const headers = { 'SVC-IDEMPOTENCY-KEY': key };
      const running = client.request('POST', path, { body: { args }, headers });
      await waitUntil(() => held.length === 1, { what: 'the run' });
      await whileHeld();
      held.pop()?.end('{}');
      return running;
    };
    const sent = `/sent?${encodeURIComponent(secret)}`;
    const first = randomUUID();
    expect((await run(first, () => Promise.resolve())).status).toBe(200);
    expect(asked).toEqual(['/hold', sent]);

    const last = await run(randomUUID(), () => move(card));
    expect(asked).toEqual(['/hold']);
    expect(JSON.stringify(last.body)).not.toContain(secret);
    const headers = { 'SVC-IDEMPOTENCY-KEY': first };
    const repeated = await client.request('POST', path, { body: { args }, headers });
    expect(repeated.status).toBe(403);
    expect(JSON.stringify(repeated.body)).not.toContain(secret);
  });

  it.each(Object.keys(callers))('of %s is not delivered once the caller may not use it', async (by) => {
    const id = await reactor('/* {{ */ return { raw: await svc.detokenize({ text: args.text }) };');
    const card = await makeToken(secret);
    receiver.plan(500);
    const body = { args: { text: quoted(card) }, callback_url: receiver.url };
    await callers[by]?.().expect(202, 'POST', `/reactors/${id}/react`, { body });
    await waitUntil(() => receiver.deliveries.length === 1, { what: 'the first attempt' });
    await move(card);
    await waitUntil(() => receiver.deliveries.length === 2, { what: 'the second attempt' });
    expect(receiver.deliveries.map(({ text }) => text.includes(secret))).toEqual([true, false]);
  });

  it.each(Object.keys(callers))('of %s is given to code of a proxy', async (by) => {
    const code = functionOf('/* {{ */ return { raw: (await svc.detokenize({ got: args.body.text })).data };');
    const path = await makeProxyOf(manager, owner.id, code);
    const body = { text: quoted(await makeToken(secret)) };
    expect((await callers[by]?.().expect(200, 'POST', path, { body }))?.body).toEqual({ got: secret });
  });

  it('is in the log as refused to the caller', async () => {
    const id = await reactor('/* {{ */ return { raw: (await svc.detokenize({ text: args.text })).data };');
    const traceId = randomUUID();
    const body = { args: { text: `{{ '{{' }} ${other} }}` } };
    await caller.client.request('POST', `/reactors/${id}/react`, {
      body,
      headers: { 'SVC-TRACE-ID': traceId },
    });
    expect(await vault.logOf({ trace_id: traceId })).toContainEqual(
      expect.objectContaining({ actor_id: caller.id, entity_id: other, operation: 'denied' }),
    );
  });

  it('is read within the bounds of a request', async () => {
    const made = await Promise.all(Array.from({ length: 12 }, () => makeToken('x'.repeat(500_000))));
    const id = await reactor(`/* {{ */ return svc.detokenize(args.text).then(
      () => ({ raw: 'done' }), (error) => ({ raw: { errors: error.problem.errors } }));`);
    const text = made.map(quoted);
    expect(await invoke(id, { text })).toEqual({
      errors: { args: ['names tokens that have more than 4 MiB of data together'] },
    });
  });
});

it('The request of a proxy that its code passes on holds no expression', async () => {
  const code = functionOf(`return { raw: (await svc.detokenize({ got: args.body.text })).data };`);
  const path = await makeProxyOf(manager, owner.id, code);
  const body = { text: `{{ '{{' }} ${other} }}` };
  expect((await caller.client.expect(200, 'POST', path, { body })).body).toEqual({ got: expression });
});

describe('An expression that names no token', () => {
  const text = quoted('customer');

  it('does not keep the answer of a run from a repeat', async () => {
    const id = await reactor('/* {{ */ return { raw: await svc.detokenize({ text: args.text }) };');
    const ask = repeatable<{ raw: unknown }>(caller.client, 'POST', `/reactors/${id}/react`, {
      args: { text: `Dear ${text}` },
    });
    const first = await ask();
    expect(first).toMatchObject({ status: 200, body: { raw: { data: { text: 'Dear ' } } } });
    expect(await ask()).toMatchObject({ status: 200, body: first.body });
  });

  it('does not keep the request of a proxy from its destination', async () => {
    asked.length = 0;
    const code = functionOf(`/* {{ */
      return { raw: { body: (await svc.detokenize({ got: args.body.text })).data } };`);
    const body = { name: 'p', destination: answering(), application: { id: owner.id }, request: { code } };
    const { id } = (await manager.expect<{ id: string }>(201, 'POST', '/proxies', { body })).body;
    await caller.client.expect(200, 'POST', `/proxies/${id}/invoke/there`, { body: { text } });
    expect(asked).toEqual(['/there']);
  });
});

/** Code that answers with the value of `use`, or with the status of its error. */
const outcomes = (use: string) =>
  `return { raw: await (${use}).then((got) => ({ got }), ({ status }) => ({ status })) };`;
const evaluations: Readonly<Record<string, (given: string) => string>> = {
  'the operation detokenize': (given) => outcomes(`svc.detokenize(${given})`),
  'another reactor': (given) => outcomes(`svc.reactors.react('${innerId}', { args: { text: ${given} } })`),
};

/** Gives the path to invoke code that evaluates `text` of its input. */
const evaluators: Readonly<Record<string, () => Promise<string>>> = Object.fromEntries(
  Object.entries(evaluations).flatMap(([name, use]) => [
    [`${name}, by a reactor`, async () => `/reactors/${await reactor(`/* {{ */ ${use('args.text')}`)}/react`],
    [
      `${name}, by a proxy`,
      () => makeProxyOf(manager, owner.id, functionOf(`/* {{ */ ${use('args.body.args.text')}`)),
    ],
  ]),
);

describe.each(Object.entries(evaluators))('A text for %s', (_name, makeEvaluator) => {
  it('uses a token of a rule with break_glass as an argument does', async () => {
    const rules = [rule({ container: '/glass/', break_glass: true, permissions: ['token:use'] })];
    const glass = await vault.makeApplication({ rules });
    const card = await makeToken(secret, '/glass/');
    const use = async (path: string, text: string, headers = {}) => {
      const traceId = randomUUID();
      const body = { args: { text } };
      const answer = await glass.client.request('POST', path, {
        body,
        headers: { 'SVC-TRACE-ID': traceId, ...headers },
      });
      const entries = await vault.logOf({ trace_id: traceId, actor_id: glass.id, entity_id: card });
      const ofToken = entries.map(({ operation, transform, reason }) => ({ operation, transform, reason }));
      return { isShown: JSON.stringify(answer.body).includes(secret), entries: ofToken };
    };
    const code = await makeEvaluator();
    const reacting = `/reactors/${innerId}/react`;
    const refused = await use(code, quoted(card));
    expect(refused).toEqual(await use(reacting, `{{ ${card} }}`));
    expect(refused).toMatchObject({ isShown: false, entries: [{ operation: 'denied' }] });

    const reason = { 'SVC-REASON': 'ticket 4711' };
    const used = await use(code, quoted(card), reason);
    expect(used).toEqual(await use(reacting, `{{ ${card} }}`, reason));
    expect(used).toMatchObject({ isShown: true, entries: [{ operation: 'use', transform: 'reveal' }] });
    await waitUntil(() => receiver.deliveries.length === 2, { what: 'the alerts' });
    for (const { text } of receiver.deliveries)
      expect(JSON.parse(text)).toMatchObject({ actor_id: glass.id, tokens: [{ id: card }] });
  });

  it('cannot ask by errors more often than an argument can', async () => {
    const asker = await vault.makeApplication({ permissions: ['token:use'] });
    const card = await makeToken({ a: 1 });
    const path = await makeEvaluator();
    const body = { args: { text: quoted(`${card} | json: '$.b' | to_number`) } };
    const statuses = [];
    for (let n = 0; n < missLimit + 1; n += 1) {
      const { raw, status } = (
        await asker.client.expect<{ raw?: { status: number }; status?: number }>(200, 'POST', path, { body })
      ).body;
      statuses.push(raw?.status ?? status);
    }
    expect(statuses).toEqual([...Array.from({ length: missLimit }, () => 400), 429]);
  });
});

it('The errors of asynchronous runs that code asks for count as misses of its caller', async () => {
  const asker = await vault.makeApplication({ permissions: ['token:use'] });
  const card = await makeToken({ a: 1 });
  const id = await reactor(`/* {{ */ await svc.reactors.react('${innerId}',
    { args: { text: args.text }, callback_url: '${receiver.url}' });`);
  const body = { args: { text: quoted(`${card} | json: '$.b' | to_number`) } };
  for (let n = 0; n < missLimit + 1; n += 1)
    await asker.client.expect(200, 'POST', `/reactors/${id}/react`, { body });
  await waitUntil(() => receiver.deliveries.length > missLimit, { what: 'the results' });
  const statuses = receiver.deliveries.map(({ text }) => (JSON.parse(text) as { status: number }).status);
  expect(statuses.sort((one, other) => one - other)).toEqual([400, 400, 429]);
});

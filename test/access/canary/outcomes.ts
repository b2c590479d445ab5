import { randomUUID } from 'node:crypto';
import type { Reactor } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import type { Flocks } from './journey.ts';
import type { World } from './world.ts';

/** The ways in which reactor code can use a number, by name. */
const doings: Readonly<Record<string, string>> = {
  'returns it': 'return { raw: { [text]: text } };',
  'tokenizes it': `return { tokenize: { card: { type: 'card', data: { number: text } }, bare: text } };`,
  'tokenizes it as a type': 'return { tokenize: { type: text, data: text } };',
  'writes it': 'console.log(text); console.error(text); return {};',
  'throws an Error of it': 'throw new Error(text);',
  'throws it': 'throw text;',
  'throws an object of it': 'throw { [text]: text };',
  'throws its class':
    'const name = class {}; Object.defineProperty(name, "name", { value: text }); throw new name();',
  'refuses with it': `const { AuthenticationError } = require('@token-vault/reactor'); throw new AuthenticationError(text);`,
  'answers with it': `const { CustomHttpResponseError } = require('@token-vault/reactor');
    throw new CustomHttpResponseError({ status: 200, headers: { 'Content-Type': 'text/plain', 'X-Card': text }, body: text });`,
  'answers a failure with it': `const { CustomHttpResponseError } = require('@token-vault/reactor');
    throw new CustomHttpResponseError({ status: 418, headers: { [text]: text }, body: { [text]: text } });`,
  'requires it': 'return { raw: require(text) };',
  'asks for it':
    'return { raw: await fetch(`https://${text}.invalid/${text}`).then((answer) => answer.status) };',
  'asks the vault for it': 'return { raw: await svc.tokens.retrieve(text) };',
  'asks for no method': 'return { raw: await svc[text](text) };',
  'evaluates it': 'return { raw: new Function(`${text} is no code`)() };',
  'leaves it behind':
    'setTimeout(() => { throw new Error(text); }, 1); return new Promise((resolve) => setTimeout(resolve, 50, {}));',
  'rejects with it unseen': 'void Promise.reject(new Error(text)); return {};',
  'returns too much of it': 'return { raw: text.repeat(100_000) };',
  'returns what is no object': 'return text;',
};

/** Runs each synchronously, as a repeat and asynchronously. */
export async function byOutcomes(world: World, { hidden }: Flocks): Promise<void> {
  const manager = world.clientWithoutKey.withKey(world.keys.management ?? '');
  const revealer = world.clientWithoutKey.withKey(world.keys.revealing ?? '');
  const application = (await manager.expect<Reactor>(200, 'GET', `/reactors/${world.ids.reactor}`)).body
    .application;
  const traceIds: string[] = [];
  await Promise.all(
    Object.entries(doings).map(async ([does, code]) => {
      const made = await manager.expect<Reactor>(201, 'POST', '/reactors', {
        body: {
          name: does,
          configuration: {},
          application: { id: application?.id },
          code: `module.exports = async ({ args: { text }, svc }) => { ${code} };`,
        },
      });
      const path = `/reactors/${made.body.id}/react`;
      const where = { operation: 'react', caller: 'revealing' } as const;
      const waited = hidden.plant({ ...where, place: does, entrance: 'reactor code' }).number;
      const headers = { 'SVC-IDEMPOTENCY-KEY': randomUUID() };
      for (let times = 0; times < 2; times += 1)
        await revealer.request('POST', path, { body: { args: { text: waited } }, headers });
      const text = hidden.plant({ ...where, place: does, entrance: 'the queue' }).number;
      const callback_url = `${world.receiverUrl}/${text}?card=${text}`;
      const queued = await revealer.expect(202, 'POST', path, { body: { args: { text }, callback_url } });
      traceIds.push(queued.headers.get('svc-trace-id') ?? '');
    }),
  );
  const areDelivered = () => traceIds.every((traceId) => world.received().includes(traceId));
  await waitUntil(areDelivered, { timeoutMs: 60_000, what: 'the outcomes of the queue' });
}

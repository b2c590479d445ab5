import type { Proxy } from '@token-vault/contracts';
import { type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useReceiver } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';
import { type Caller, functionOf, makeCard, useVault } from '../world/vault.ts';

// Every refusal is in the log, also of a step of running code whose run is answered later.

const vault = useVault();
const { manager, makeApplication } = vault;
const receiver = useReceiver(beforeEach);
let owner: Caller;
beforeAll(async () => {
  owner = await makeApplication({ rules: [rule()] });
});

interface Run {
  readonly caller: Caller;
  /** The application of the code. */
  readonly reader: Caller;
  /** Of the arguments. */
  readonly usedId: string;
  /** The code has read it. */
  readonly readId: string;
}

/** Code that tries again and again to send, to change and to read, until a request of its own is allowed. */
const trying = (readId: string) => `
  await svc.tokens.retrieve('${readId}');
  await fetch(configuration.RECEIVER);
  for (let isRefused = true; isRefused; ) {
    isRefused = false;
    await svc.tokens.create({ type: 'token', data: 'made' }).catch(() => {});
    await fetch(configuration.RECEIVER).catch(() => (isRefused = true));
    await svc.tokens.list({}).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {};`;

async function askReactor({ caller, reader, usedId, readId }: Run, trace: string) {
  const configuration = { RECEIVER: receiver.url };
  const id = await vault.makeFunction(trying(readId), { application: reader, configuration });
  const body = { args: { secret: `{{ ${usedId} }}` } };
  return () => ask(caller.client, `/reactors/${id}/react`, body, trace);
}

async function askProxy({ caller, reader, usedId, readId }: Run, trace: string) {
  await vault.setTenant({ proxy_destinations: new URL(receiver.url).origin });
  const body = {
    name: 'tries',
    destination: receiver.url,
    application: { id: reader.id },
    configuration: { RECEIVER: receiver.url },
    request: { code: functionOf(trying(readId)) },
  };
  const { id } = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
  return () => ask(caller.client, `/proxies/${id}/invoke/x`, { secret: `{{ ${usedId} }}` }, trace);
}

const ask = async (client: Client, path: string, body: object, trace: string): Promise<number> =>
  (await client.request('POST', path, { body, headers: { 'SVC-TRACE-ID': trace } })).status;

const grant = ({ path }: Caller, ...rules: readonly object[]) =>
  manager.expect(200, 'PUT', path, { body: { name: 'a', rules } });

const losses = {
  caller: ({ caller, usedId }: Run) => ({ loser: caller, tokenId: usedId }),
  'application of the code': ({ reader, readId }: Run) => ({ loser: reader, tokenId: readId }),
};

describe.each([
  ['a reactor', 'react', askReactor],
  ['a proxy', 'invokeProxy', askProxy],
])('steps of the code of %s', (_what, request, prepare) => {
  it.each(Object.entries(losses))(
    'are refused on record, in the name of the %s that loses a right for a while',
    async (_who, lossOf) => {
      const run: Run = {
        caller: await makeApplication({ rules: [rule()] }),
        reader: await makeApplication({ rules: [rule()] }),
        usedId: await makeCard(owner.client),
        readId: await makeCard(owner.client),
      };
      const { loser, tokenId } = lossOf(run);
      const begin = await prepare(run, tokenId);
      receiver.plan('hang');
      const answered = begin();
      await waitUntil(() => receiver.held === 1, { what: 'the code at the gate' });
      await grant(loser, rule({ container: '/elsewhere/' }));
      receiver.release();
      const denied = () => vault.logOf({ trace_id: tokenId, operation: 'denied' });
      await waitUntil(async () => (await denied()).length > 0, { what: 'the record of the refusal' });
      await grant(loser, rule());
      expect(await answered).toBeLessThan(300);
      expect(await denied()).toMatchObject([
        { actor_id: loser.id, entity_type: 'card', entity_id: tokenId, request },
      ]);
    },
  );
});

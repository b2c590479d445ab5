import { randomUUID } from 'node:crypto';
import type { LogEntry, Proxy } from '@token-vault/contracts';
import { type Client, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { useReceiver } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';
import { type Caller, functionOf, makeCard, useVault } from '../world/vault.ts';

// Every refusal is in the log, also of a step of running code whose run is answered later. Each is there once, and names who lacks the right.

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
  /** The code has read it, or tries to. */
  readonly readId: string;
}

const makeRun = async (readerRule: object = rule()): Promise<Run> => ({
  caller: await makeApplication({ rules: [rule()] }),
  reader: await makeApplication({ rules: [readerRule] }),
  usedId: await makeCard(owner.client),
  readId: await makeCard(owner.client),
});

/** Code that was made. `path`: of the reactor or proxy. */
interface Made {
  readonly id: string;
  readonly path: string;
  readonly invoke: string;
}
type Make = (code: string, application: Caller) => Promise<Made>;

const makeReactor: Make = async (code, application) => {
  const configuration = { RECEIVER: receiver.url };
  const id = await vault.makeFunction(code, { application, configuration });
  return { id, path: `/reactors/${id}`, invoke: `/reactors/${id}/react` };
};

const makeProxy: Make = async (code, application) => {
  await vault.setTenant({ proxy_destinations: new URL(receiver.url).origin });
  const body = {
    name: 'tries',
    destination: receiver.url,
    application: { id: application.id },
    configuration: { RECEIVER: receiver.url },
    request: { code: functionOf(code) },
  };
  const { id } = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body })).body;
  return { id, path: `/proxies/${id}`, invoke: `/proxies/${id}/invoke/x` };
};

const kinds = [
  ['reactor', 'react', makeReactor],
  ['proxy', 'invokeProxy', makeProxy],
] as const;

const ask = async (client: Client, { invoke }: Made, usedId: string, trace: string): Promise<number> => {
  const body = { args: { secret: `{{ ${usedId} }}` } };
  return (await client.request('POST', invoke, { body, headers: { 'SVC-TRACE-ID': trace } })).status;
};

/** Invokes code that waits at the gate, and goes on after `withdraw`. */
async function askAtGate(
  { caller, usedId }: Run,
  made: Made,
  trace: string,
  withdraw: () => Promise<unknown>,
) {
  receiver.plan('hang');
  const answered = ask(caller.client, made, usedId, trace);
  await waitUntil(() => receiver.held === 1, { what: 'the code at the gate' });
  await withdraw();
  receiver.release();
  return answered;
}

const grant = ({ path }: Caller, ...rules: readonly object[]) =>
  manager.expect(200, 'PUT', path, { body: { name: 'a', rules } });

const refusalsOf = async (trace: string): Promise<readonly LogEntry[]> =>
  (await vault.logOf({ trace_id: trace })).filter(({ operation }) =>
    ['denied', 'authenticate'].includes(operation),
  );

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

const losses = {
  caller: ({ caller, usedId }: Run) => ({ loser: caller, tokenId: usedId }),
  'application of the code': ({ reader, readId }: Run) => ({ loser: reader, tokenId: readId }),
};

describe.each(kinds)('steps of the code of a %s', (_what, request, make) => {
  it.each(Object.entries(losses))(
    'are refused on record, in the name of the %s that loses a right for a while',
    async (_who, lossOf) => {
      const run = await makeRun();
      const { loser, tokenId } = lossOf(run);
      const made = await make(trying(run.readId), run.reader);
      const denied = () => refusalsOf(tokenId);
      const answered = askAtGate(run, made, tokenId, () => grant(loser, rule({ container: '/elsewhere/' })));
      await waitUntil(async () => (await denied()).length > 0, { what: 'the record of the refusal' });
      await grant(loser, rule());
      expect(await answered).toBeLessThan(300);
      expect(await denied()).toMatchObject([
        { actor_id: loser.id, entity_type: 'card', entity_id: tokenId, request },
      ]);
    },
  );
});

/** A request of code that is refused each time. */
interface Loop {
  readonly readerRule?: object;
  readonly step: (run: Run) => string;
  readonly withdraw?: (run: Run) => Promise<unknown>;
  readonly entry: (run: Run) => Partial<LogEntry>;
}

const elsewhere = rule({ container: '/elsewhere/' });
const send = () => 'fetch(configuration.RECEIVER)';
const loops: Readonly<Record<string, Loop>> = {
  'by the rules of the code': {
    readerRule: elsewhere,
    step: ({ readId }) => `svc.tokens.retrieve('${readId}')`,
    entry: ({ reader, readId }) => ({ operation: 'denied', actor_id: reader.id, entity_id: readId }),
  },
  'by the permissions of the code': {
    step: ({ readId }) => `svc.tokens.delete('${readId}')`,
    entry: ({ reader, readId }) => ({ operation: 'denied', actor_id: reader.id, entity_id: readId }),
  },
  'by the rules, for items of a request': {
    readerRule: elsewhere,
    step: () => `svc.tokens.createMany({ tokens: ['1', '2'].map((data) => ({ type: 'token', data })) })`,
    entry: ({ reader }) => ({ operation: 'denied', actor_id: reader.id, request: 'createTokens' }),
  },
  'by the rules of the caller': {
    step: send,
    withdraw: ({ caller }) => grant(caller, elsewhere),
    entry: ({ caller, usedId }) => ({ operation: 'denied', actor_id: caller.id, entity_id: usedId }),
  },
  'because the application of the code has ended': {
    step: () => 'svc.tokens.list({})',
    withdraw: ({ reader }) => manager.expect(204, 'DELETE', reader.path),
    entry: ({ reader }) => ({ operation: 'authenticate', actor_id: reader.id, entity_id: reader.id }),
  },
  'because the caller has ended': {
    step: send,
    withdraw: ({ caller }) => manager.expect(204, 'DELETE', caller.path),
    entry: ({ caller }) => ({ operation: 'authenticate', actor_id: caller.id, entity_id: caller.id }),
  },
};

/** A run may make 200 requests. */
const looping = (step: string) => `
  await fetch(configuration.RECEIVER);
  for (let tries = 1; tries < 200; tries += 1) await ${step}.catch(() => {});
  return {};`;

const told = ({ operation, actor_id, entity_type, entity_id, request }: LogEntry) =>
  [operation, actor_id, entity_type, entity_id, request].join(' ');

describe.each(kinds)('199 requests of the code of a %s that are refused', (_what, _request, make) => {
  it.each(Object.entries(loops))(
    '%s have one entry in the log',
    async (_why, { readerRule, step, withdraw = () => Promise.resolve(), entry }) => {
      const run = await makeRun(readerRule);
      const made = await make(looping(step(run)), run.reader);
      const trace = randomUUID();
      await askAtGate(run, made, trace, () => withdraw(run));
      const entries = await refusalsOf(trace);
      expect(entries).toContainEqual(expect.objectContaining(entry(run)));
      // The answer, too, may be refused, for another reason.
      expect(entries.map(told).sort()).toEqual([...new Set(entries.map(told))].sort());
      expect(entries.length).toBeLessThanOrEqual(2);
    },
    60_000,
  );

  it('have one entry each when they name different tokens', async () => {
    const run = await makeRun(elsewhere);
    const ids = [run.readId, run.usedId];
    const step = `svc.tokens.retrieve(${JSON.stringify(ids)}[tries % 2])`;
    const trace = randomUUID();
    await askAtGate(run, await make(looping(step), run.reader), trace, () => Promise.resolve());
    expect((await refusalsOf(trace)).map(({ entity_id: id }) => id).sort()).toEqual([...ids].sort());
  }, 60_000);
});

/** What makes the outer code stop, while the inner code is at the gate. */
const changes: Readonly<Record<string, (outer: Made) => Promise<unknown>>> = {
  'was changed': ({ path }) =>
    manager.expect(204, 'PATCH', path, { body: { application: { id: owner.id } } }),
  'was deleted': ({ path }) => manager.expect(204, 'DELETE', path),
};

describe.each(kinds)(
  'a step of inner code that is refused because of the outer %s',
  (type, _request, make) => {
    /** Gives the entries of the refusals, each as its actor and its entity. */
    async function refusedIn(run: Run, withdraw: (outer: Made) => Promise<unknown>) {
      const gate = 'await fetch(configuration.RECEIVER);';
      const inner = await makeReactor(`${gate} await ${send()}.catch(() => {}); return {};`, owner);
      const asking = `await svc.reactors.react('${inner.id}', { args: {} }).catch(() => {}); return {};`;
      const outer = await make(asking, run.reader);
      const trace = randomUUID();
      await askAtGate(run, outer, trace, () => withdraw(outer));
      const denied = (await refusalsOf(trace)).filter(({ operation }) => operation === 'denied');
      const entries = denied.map(({ actor_id, entity_type, entity_id }) => [
        actor_id,
        entity_type,
        entity_id,
      ]);
      return { entries, expected: [[run.caller.id, type, outer.id]] };
    }

    it.each(Object.entries(changes))(
      'names the outer code and its caller once the outer code %s',
      async (_how, change) => {
        const { entries, expected } = await refusedIn(await makeRun(), change);
        expect(entries).toEqual(expected);
      },
    );

    it('names the caller and the code that it had asked for once the caller has ended', async () => {
      const run = await makeRun();
      const end = () => manager.expect(204, 'DELETE', run.caller.path);
      const { entries, expected } = await refusedIn(run, end);
      expect(entries).toEqual(expected);
    });
  },
);

import {
  invocationStatement,
  newId,
  ReactorUpdated,
  streams,
  type Json,
  type VaultEvent,
} from '@token-vault/contracts';
import type { EventStore, RecordedEvent } from '@token-vault/event-store';
import { beforeEach, describe, expect, it } from 'vitest';
import { historyFrom, readHistory, type Invocation } from '../src/runs/invocation.ts';
import type { FindInvoker, OpenTokens } from '../src/runs/ports.ts';
import { Deliveries } from '../src/webhooks/deliver.ts';
import {
  invoker,
  noLimit,
  nothingSeen,
  tenantId,
  useRunnerFixture,
  type RunnerFixture,
} from './runner-fixture.ts';

let fixture: RunnerFixture;
useRunnerFixture((made) => (fixture = made));
let opened: number;
let sent: string[];
beforeEach(async () => {
  opened = 0;
  sent = [];
});

const openTokens: OpenTokens = async (_ids, _context, make) => {
  opened += 1;
  return { made: make(new Map()), use: [], madeAt: new Map() };
};
const findInvoker: FindInvoker = (ofTenant, actor) => Promise.resolve(invoker(ofTenant, actor));

type Forge = (event: RecordedEvent) => RecordedEvent;

/** The log after an attacker with the database has rewritten events of one stream. */
const rewritten = (stream: string, forge: Forge): EventStore => ({
  ...fixture.store,
  async *readStream(name, options) {
    for await (const event of fixture.store.readStream(name, options))
      yield name === stream ? forge(event) : event;
  },
});
const withData =
  (change: Record<string, Json | undefined>): Forge =>
  (event) =>
    ({ ...event, data: { ...event.data, ...change } }) as RecordedEvent;

/** The invocation is younger than the end of a token that it was given, so that the token no longer decides. */
const askedLater: Forge = (event) => {
  const later = new Date(Date.parse(event.metadata.occurred_at) + 600_000);
  return { ...event, metadata: { ...event.metadata, occurred_at: later.toISOString() } };
};

/** Runs the invocation as a runner that reads this log. Gives the outcome. */
async function run(store: EventStore, invocation: Invocation) {
  const runner = fixture.runner({ store, openTokens, findInvoker });
  await runner.handle(await readHistory(store, invocation.stream));
  return (await fixture.eventsOf(invocation)).findLast(({ type }) => type.startsWith('Reactor'));
}

const refused = { type: 'ReactorFailed', data: { status: 500, reason: 'record_altered' } };

describe('a reactor that was altered in the log is not run', () => {
  it.each<[string, Record<string, Json | undefined>]>([
    ['other code', { code: 'stolen' }],
    ['another application', { application_id: newId() }],
    ['another configuration', { configuration: `sv1.${newId()}.${'A'.repeat(60)}` }],
    ['no signature', { signature: undefined }],
  ])('with %s', async (_what, change) => {
    const invocation = await fixture.invoke({ n: 1 });
    const stream = streams.reactor(tenantId, invocation.invoked.reactor_id);
    expect(await run(rewritten(stream, withData(change)), invocation)).toMatchObject(refused);
    expect(fixture.runs).toEqual([]);
  });

  it('when its first content was written again later in its stream', async () => {
    const first = await fixture.invoke({ n: 1 });
    const stream = streams.reactor(tenantId, first.invoked.reactor_id);
    const events: RecordedEvent[] = [];
    for await (const event of fixture.store.readStream(stream)) events.push(event);
    const { id: _id, stream: _stream, revision: _revision, position: _position, ...copy } = events[0]!;
    const again = { ...copy, id: newId(), type: ReactorUpdated.type };
    await fixture.store.append(stream, [again as VaultEvent], 'any');
    const second = await fixture.invoke({ n: 2 }, undefined, { reactor_revision: 1 });
    expect(await run(fixture.store, second)).toMatchObject(refused);
    expect(await run(fixture.store, first)).toMatchObject({ type: 'ReactorSucceeded' });
    expect(fixture.runs).toHaveLength(1);
  });
});

describe('an invocation that was altered in the log is not run, and opens no token', () => {
  it.each<[string, Forge]>([
    ['another reactor', withData({ reactor_id: newId() })],
    ['another revision of it', withData({ reactor_revision: 7 })],
    ['other tokens', withData({ token_ids: ['victim'] })],
    ['other arguments', withData({ args: `sv1.${newId()}.${'A'.repeat(60)}` })],
    ['a callback', withData({ mode: 'async', callback_url: `sv1.${newId()}.${'A'.repeat(60)}` })],
    ['less depth', withData({ depth: 3 })],
    ['more time', withData({ timeout_ms: 210_000 })],
    ['another key of its caller', withData({ key_hash: 'f'.repeat(64) })],
    ['no signature', withData({ signature: undefined })],
    [
      'another caller',
      (event) => ({ ...event, metadata: { ...event.metadata, actor: { kind: 'application', id: 'admin' } } }),
    ],
    [
      'a session of another application',
      (event) => ({ ...event, metadata: { ...event.metadata, application_id: newId() } }),
    ],
    ['a later time', askedLater],
  ])('with %s', async (_what, forge) => {
    const invocation = await fixture.invoke({ n: 1 });
    const forging: Forge = (event) => (event.type === 'ReactorInvoked' ? forge(event) : event);
    expect(await run(rewritten(invocation.stream, forging), invocation)).toMatchObject(refused);
    expect(fixture.runs).toEqual([]);
    expect(opened).toBe(0);
    // A forged event may name the key of another entity as that of its arguments.
    await expect(fixture.open(invocation, 'args', invocation.invoked.args)).resolves.toBeDefined();
  });

  it('but one that an older release signed, without its time, is run', async () => {
    const invocation = await fixture.invoke({ n: 1 });
    const { invoked, metadata } = invocation;
    const { added, ...ofOlderRelease } = invocationStatement(invoked, metadata);
    expect(added).toEqual([metadata.occurred_at]);
    const signature = (await fixture.keyRing.hashes(tenantId)).sign(ofOlderRelease, 0);
    const store = rewritten(invocation.stream, (event) =>
      event.type === 'ReactorInvoked' ? withData({ signature })(event) : event,
    );
    expect(await run(store, invocation)).toMatchObject({ type: 'ReactorSucceeded' });
  });

  it('when it was copied to another stream it is still run once', async () => {
    const invocation = await fixture.invoke({ n: 1 });
    const [invoked] = await fixture.eventsOf(invocation);
    await fixture.runner().handle(historyFrom(invoked!));
    await fixture.runner().handle(historyFrom({ ...invoked!, stream: 'invocation-elsewhere' }));
    expect(fixture.runs).toHaveLength(1);
  });
});

describe('the result of a run', () => {
  const deliver = (store: EventStore, id: string) =>
    new Deliveries({
      ...fixture,
      store,
      findInvoker,
      decisionOnSeen: nothingSeen,
      decisionOnUse: () => Promise.resolve(() => undefined),
      refuseOwner: () => Promise.resolve(undefined),
      fetch: ({ url }) => {
        sent.push(url);
        return Promise.resolve({ status: 200 } as never);
      },
    }).deliver(tenantId, id, noLimit);
  const finished = async () => {
    const invocation = await fixture.invoke({ n: 1 }, 'https://receiver.example/');
    await fixture.runner().handle(await fixture.historyOf(invocation));
    return invocation;
  };
  const lastOf = async (invocation: Invocation) => (await fixture.eventsOf(invocation)).at(-1);

  it('goes to the callback of its invocation', async () => {
    const invocation = await finished();
    await deliver(fixture.store, invocation.id);
    expect(sent).toEqual(['https://receiver.example/']);
    expect(await lastOf(invocation)).toMatchObject({ type: 'WebhookDelivered' });
  });

  it.each<[string, (elsewhere: Json | undefined) => Forge]>([
    ['another callback', (elsewhere) => withData({ callback_url: elsewhere })],
    ['a later time', () => askedLater],
  ])('is not sent, and not tried again, when the invocation was given %s', async (_what, forged) => {
    const invocation = await finished();
    const thief = await fixture.invoke({}, 'https://thief.example/');
    const alter = forged(thief.invoked.callback_url);
    const forge: Forge = (event) => (event.type === 'ReactorInvoked' ? alter(event) : event);
    await deliver(rewritten(invocation.stream, forge), invocation.id);
    expect(sent).toEqual([]);
    expect(await lastOf(invocation)).toMatchObject({
      type: 'WebhookGivenUp',
      data: { reason: 'record altered' },
    });
  });

  it('of one run does not go to the callback of another', async () => {
    const [invocation, thief] = [await finished(), await finished()];
    const outcome = (await fixture.eventsOf(invocation)).find((event) => event.type === 'ReactorSucceeded');
    const forge: Forge = (event) =>
      event.type === 'ReactorSucceeded' ? withData({ result: outcome?.data.result })(event) : event;
    await deliver(rewritten(thief.stream, forge), thief.id);
    expect(sent).toEqual([]);
    expect(await lastOf(thief)).toMatchObject({ type: 'WebhookGivenUp', data: { reason: 'record altered' } });
  });
});

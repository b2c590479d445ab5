import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { EventStoreAccessError, EventStoreUnavailableError, startPosition } from '@token-vault/event-store';
import { startEventStoreDbDouble, type EventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { noted } from '../src/contract-suite/test-events.ts';
import { collect, expectNothingUnhandled, follow, openOn } from './eventstoredb-fixture.ts';

// Always the double: a server of EVENTSTOREDB_SERVER has no accounts.
let double: EventStoreDbDouble;

beforeEach(async () => {
  double = await startEventStoreDbDouble({
    accounts: {
      vault: { password: 'right', mayReadAll: true },
      writer: { password: 'right', mayReadAll: false },
    },
  });
});
afterEach(() => double.close());
expectNothingUnhandled();

const openAs = (account: string) => openOn({ connectionString: double.connectionStringFor(account) });

describe('a server with accounts, by TLS at an IP address', () => {
  it('serves the account that may read $all, and no warning of Node appears', async () => {
    const store = openAs('vault:right');
    await store.append('a', [noted('a')], 'no-stream');
    expect(await collect(store.readAll(startPosition))).toEqual(['a']);
    const subscription = follow(store);
    await waitUntil(() => subscription.texts().length === 1);
  });

  it('has written events of its own, which tell of its accounts, and its log is empty', async () => {
    expect(double.log.events.map(({ stream }) => stream)).toEqual([
      '$$$scavenges',
      ...['admin', 'ops'].flatMap((name) => [`$$$user-${name}`, `$user-${name}`, '$users']),
    ]);
    const store = openAs('vault:right');
    expect(await store.head()).toBe(startPosition);
    expect(await collect(store.readAll(startPosition))).toEqual([]);
  });

  it.each([
    ['vault:wrong', 'does not know this user name and password'],
    ['nobody:right', 'does not know this user name and password'],
    ['writer:right', 'does not let this account read $all'],
  ])('refuses %s in one line that says why, for every call', async (account, reason) => {
    const store = openAs(account);
    for (const call of [
      () => store.head(),
      () => collect(store.readAll(startPosition)),
      () => follow(store).ended,
      () => store.append('a', [noted('a')], 'any'),
    ]) {
      const failure: unknown = await call().catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(EventStoreAccessError);
      // An operator may correct the rights while the vault runs: a repeat may succeed.
      expect(failure).toBeInstanceOf(EventStoreUnavailableError);
      expect((failure as Error).message).toBe(`the event store ${reason}`);
    }
  });

  it('is not believed at an address that its certificate does not name', async () => {
    const elsewhere = createServer((socket) => {
      const server = connect(double.port, '127.0.0.1');
      socket.on('error', () => undefined).pipe(server);
      server.on('error', () => undefined).pipe(socket);
    });
    elsewhere.listen(0, '127.0.0.2');
    await once(elsewhere, 'listening');
    onTestFinished(() => void elsewhere.close());
    const { port } = elsewhere.address() as AddressInfo;
    const connectionString = double
      .connectionStringFor('vault:right')
      .replace(`127.0.0.1:${double.port}`, `127.0.0.2:${port}`);
    const failure: unknown = await openOn({ connectionString })
      .head()
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(EventStoreUnavailableError);
    expect(double.calls.get('read')).toBeUndefined();
  });
});

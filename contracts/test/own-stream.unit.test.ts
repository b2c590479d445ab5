import { expect, it } from 'vitest';
import { AlteredRecordError, onForeignEvent, requireOwnStream, streams } from '../src/index.ts';
import { readFixtures } from './event-fixtures.ts';

const { application, session, consoleSession, reactor, proxy, token } = streams;
const events = /^(Application|Session|ConsoleSession|Reactor|Proxy|Token)(?!Invo|Answered|s|KeysAbandoned)/;
const others = /^Reactor(Started|Succeeded|Failed)\.|^TokenKeys/;
const kinds = [
  ['ConsoleSession', consoleSession, 'session_id'],
  ['Session', session, 'session_id'],
  ['Application', application, 'application_id'],
  ['Reactor', reactor, 'reactor_id'],
  ['Proxy', proxy, 'proxy_id'],
  ['Token', token, 'token_id'],
] as const;

const signed = [...readFixtures()].filter(([name]) => events.test(name) && !others.test(name));

it('there are fixtures of every signed entity', () => {
  for (const [kind] of kinds) expect(signed.some(([name]) => name.startsWith(kind))).toBe(true);
});

it.each(signed)('%s counts in the stream of its entity alone', (name, event) => {
  const [kind, streamOf, id] = kinds.find(([kind]) => name.startsWith(kind)) ?? kinds[0];
  const { tenant_id: tenantId } = event.metadata;
  const entityId = event.data[id] as string;
  const own = streamOf(tenantId, entityId);
  expect(() => requireOwnStream(event, own)).not.toThrow();
  const told: unknown[] = [];
  onForeignEvent((...given) => told.push(given));
  for (const foreign of [streamOf(tenantId, 'another'), streamOf('another', entityId), ''])
    expect(() => requireOwnStream(event, foreign)).toThrow(AlteredRecordError);
  expect(told).toEqual(
    Array.from({ length: 3 }, () => [kind.replace('Console', 'Console ').toLowerCase(), tenantId]),
  );
});

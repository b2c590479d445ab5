import { expect, it } from 'vitest';
import {
  AlteredRecordError,
  eventDefinitions,
  onAlteredLog,
  requireOwnStream,
  streams,
} from '../src/index.ts';
import { readFixtures } from './event-fixtures.ts';

const { application, session, consoleSession, reactor, proxy, token, transaction, invocation } = streams;
const tenant = (_tenantId: string, id: string) => streams.tenant(id);
const consoleEvents = /^ConsoleSession/;
const invocationEvents = /^Reactor(Invo|Started|Succeeded|Failed)|^Webhook/;
/** The kind, its stream, the property with the id, and the names of its events. */
const kinds = [
  ['console session', consoleSession, 'session_id', consoleEvents],
  ['session', session, 'session_id', /^Session/],
  ['application', application, 'application_id', /^Application/],
  ['invocation', invocation, 'invocation_id', invocationEvents],
  ['reactor', reactor, 'reactor_id', /^Reactor(Created|Updated|Signed|Deleted)/],
  ['proxy', proxy, 'proxy_id', /^Proxy(Created|Updated|Deleted|Key)/],
  ['token', token, 'token_id', /^Token(?!s)|^FingerprintClaimVoided/],
  ['transaction', transaction, 'transaction_id', /^Transaction(?!Counted)/],
  ['tenant', tenant, 'tenant_id', /^Tenant/],
] as const;

const fixtures = [...readFixtures()];
const own = fixtures.flatMap(([name, event]) =>
  kinds.filter(([, , , names]) => names.test(name)).map((kind) => [name, event, kind] as const),
);

it('there are fixtures of every entity', () => {
  for (const kind of kinds) expect(own.some(([, , each]) => each === kind)).toBe(true);
});

it.each(own)('%s counts in the stream of its entity alone', (_name, event, [kind, streamOf, id]) => {
  const { tenant_id: tenantId } = event.metadata;
  const entityId = event.data[id] as string;
  const stream = streamOf(tenantId, entityId);
  expect(() => requireOwnStream(event, stream)).not.toThrow();
  const told: unknown[] = [];
  const stop = onAlteredLog((...given) => told.push(given));
  for (const foreign of [streamOf('another', 'another'), streams.audit(tenantId), ''])
    expect(() => requireOwnStream(event, foreign)).toThrow(AlteredRecordError);
  expect(() => requireOwnStream(event, stream, false)).toThrow(AlteredRecordError);
  stop();
  expect(() => requireOwnStream(event, '')).toThrow(AlteredRecordError);
  expect(told).toEqual(Array.from({ length: 4 }, () => [kind, tenantId]));
});

it('an entity has no other events in its stream than those of the vault that do not change it', () => {
  const metadata = { tenant_id: 'tenant' };
  const others = kinds.map(([kind, streamOf, , names]) => {
    const foreign = eventDefinitions.map(({ type }) => type).filter((type) => !names.test(type));
    const isIn = (type: string) => {
      try {
        requireOwnStream({ type, data: {}, metadata }, streamOf('tenant', 'id'));
        return true;
      } catch {
        return false;
      }
    };
    return [kind, foreign.filter(isIn)];
  });
  expect(Object.fromEntries(others)).toEqual({
    application: [],
    session: [],
    'console session': [],
    transaction: [],
    invocation: ['TokensRead', 'AccessDenied'],
    reactor: ['KeysAbandoned'],
    proxy: ['KeysAbandoned'],
    token: ['KeysAbandoned'],
    tenant: ['KeysAbandoned'],
  });
});

import {
  ProxyCreated,
  ProxyDeleted,
  ProxyKeyAdded,
  ProxyKeyDeleted,
  ProxyUpdated,
} from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import { describe, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';
import { proxyDecider } from '../../src/proxies/decider.ts';
import { specify } from '../aggregates/specification.ts';

const { given } = specify(proxyDecider);
const id = '00000000-0000-4000-8000-0000000000b1';
const dataKeyId = '00000000-0000-4000-8000-0000000000c1';
const applicationId = '00000000-0000-4000-8000-0000000000a1';
const sealedAs = (text: string) => `sv1.${dataKeyId}.${text.padEnd(50, 'A')}` as SealedValue;
const now = new Date('2030-01-01T00:00:00Z');

const content = {
  name: 'Pay',
  destination: 'https://pay.example/v1',
  destinations: [],
  requestCode: undefined,
  responseCode: 'code',
  requireAuth: true,
  configuration: sealedAs('one'),
  applicationId,
};
const data = {
  proxy_id: id,
  name: 'Pay',
  destination: 'https://pay.example/v1',
  destinations: [],
  response_code: 'code',
  require_auth: true,
  configuration: content.configuration,
  application_id: applicationId,
};
const created = fact(ProxyCreated, data);
const deleted = fact(ProxyDeleted, { proxy_id: id, key_ids: [dataKeyId] });
const { application_id: _id, ...withoutApplication } = data;
const aloneContent = { ...content, applicationId: undefined };
const alone = fact(ProxyCreated, withoutApplication);

const keyOf = (digit: number, expires_at?: string) => ({
  id: `00000000-0000-4000-8000-0000000000d${digit}`,
  hash: String(digit).repeat(64),
  created_at: now.toISOString(),
  ...(expires_at === undefined ? {} : { expires_at }),
});
type Key = ReturnType<typeof keyOf>;
const added = (...keys: Key[]) => fact(ProxyKeyAdded, { proxy_id: id, key_id: keys.at(-1)?.id ?? '', keys });
const addKey = (key: Key) => ({ kind: 'add-key', key, now }) as const;
const rights = { code: 'validation_failed' };

describe('a proxy', () => {
  it('is created', () => given().when({ kind: 'create', id, content }).then(created));
  it('is created once, however often the command is repeated', () =>
    given(created).when({ kind: 'create', id, content }).thenNothing());
  it('is not created again by a repeat', () =>
    given(created, deleted).when({ kind: 'create', id, content }).thenRefused({ code: 'conflict' }));
  it('is updated as a whole', () =>
    given(created)
      .when({ kind: 'update', content: { ...aloneContent, responseCode: undefined } })
      .then(fact(ProxyUpdated, (({ response_code: _code, ...rest }) => rest)(withoutApplication))));
  it('is not updated to what it is', () => given(created).when({ kind: 'update', content }).thenNothing());
  it('is deleted with the key of its configuration', () =>
    given(created).when({ kind: 'delete' }).then(deleted));
  it.each([
    ['absent', []],
    ['deleted', [created, deleted]],
  ])('that is %s can neither be changed nor deleted', (_how, past) => {
    for (const command of [
      { kind: 'update', content },
      { kind: 'delete' },
      addKey(keyOf(1)),
      { kind: 'delete-key', keyId: keyOf(1).id, now },
    ] as const)
      given(...past)
        .when(command)
        .thenRefused({ code: 'not_found' });
  });
});

describe('a proxy without an application', () => {
  it('needs keys of callers', () => {
    given()
      .when({ kind: 'create', id, content: { ...aloneContent, requireAuth: false } })
      .thenRefused(rights);
    given(created)
      .when({ kind: 'update', content: { ...aloneContent, requireAuth: false } })
      .thenRefused(rights);
  });
  it('has no keys of its own', () => {
    given(alone)
      .when(addKey(keyOf(1)))
      .thenRefused(rights);
    given(created, added(keyOf(1)))
      .when({ kind: 'update', content: aloneContent })
      .thenRefused(rights);
  });
});

describe('keys of a proxy', () => {
  const ended = keyOf(2, '2029-12-31T23:59:59Z');
  it('are added, and expired ones are left out', () =>
    given(created, added(keyOf(1)), added(keyOf(1), ended))
      .when(addKey(keyOf(3)))
      .then(added(keyOf(1), keyOf(3))));
  it('are deleted', () =>
    given(created, added(keyOf(1)), added(keyOf(1), keyOf(2)))
      .when({ kind: 'delete-key', keyId: keyOf(1).id, now })
      .then(fact(ProxyKeyDeleted, { proxy_id: id, key_id: keyOf(1).id, keys: [keyOf(2)] })));
  it('that are expired or unknown cannot be deleted', () => {
    for (const keyId of [ended.id, keyOf(9).id])
      given(created, added(ended))
        .when({ kind: 'delete-key', keyId, now })
        .thenRefused({ code: 'not_found' });
  });
  it('expire later than now', () => given(created).when(addKey(ended)).thenRefused(rights));
  it('are ten at most', () => {
    const keys = Array.from({ length: 10 }, (_, index) => ({
      ...keyOf(1),
      id: `00000000-0000-4000-8000-00000000010${index}`,
    }));
    given(created, added(...keys))
      .when(addKey(keyOf(2)))
      .thenRefused({ code: 'conflict' });
  });
  it('stay when the proxy is replaced', () =>
    given(created, added(keyOf(1)), fact(ProxyUpdated, { ...data, name: 'New' }))
      .when(addKey(keyOf(2)))
      .then(added(keyOf(1), keyOf(2))));
});

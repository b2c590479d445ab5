import {
  ApplicationCreated,
  ApplicationKeyAdded,
  ApplicationKeyDeleted,
  ApplicationKeyRegenerated,
} from '@token-vault/contracts';
import { describe, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';
import { applicationDecider } from '../../src/applications/decider.ts';
import { later, now, specify } from '../aggregates/specification.ts';

const { given } = specify(applicationDecider);
const id = '00000000-0000-4000-8000-0000000000a1';
const idOf = (serial: number): string => `00000000-0000-4000-8000-${String(serial).padStart(12, '0')}`;
const hashOf = (serial: number): string => String(serial).padStart(64, '0');
const created = fact(ApplicationCreated, {
  application_id: id,
  name: 'Shop',
  type: 'private',
  key_hash: hashOf(0),
  permissions: ['token:read'],
  rules: [],
});
const key = (serial: number, expiresAt?: Date) => ({
  id: idOf(serial),
  hash: hashOf(serial),
  created_at: now.toISOString(),
  ...(expiresAt && { expires_at: expiresAt.toISOString() }),
});
const added = (serial: number, keys: ReturnType<typeof key>[]) =>
  fact(ApplicationKeyAdded, {
    application_id: id,
    key_id: idOf(serial),
    key_hash: hashOf(serial),
    keys,
  });
const add = (serial: number, expiresAt?: Date) =>
  ({
    kind: 'add-key',
    keyId: idOf(serial),
    keyHash: hashOf(serial),
    expiresAt: expiresAt?.toISOString(),
    maker: 'operator',
    now,
  }) as const;
const nine = Array.from({ length: 9 }, (_, index) => key(index + 1));
const full = [created, ...nine.map((_, index) => added(index + 1, nine.slice(0, index + 1)))];

describe('another key of an application', () => {
  it('is added to the existing keys', () =>
    given(created, added(1, [key(1)]))
      .when(add(2))
      .then(added(2, [key(1), key(2)])));
  it('is refused with an expiry that has passed', () =>
    given(created).when(add(1, now)).thenRefused({ code: 'validation_failed' }));
  it('is refused when there are ten valid keys', () =>
    given(...full)
      .when(add(10))
      .thenRefused({ code: 'conflict' }));
  it('replaces a key that has expired', () =>
    given(...full.slice(0, -1), added(9, [...nine.slice(0, 8), key(9, later(1000))]))
      .when({ ...add(10), now: later(1000), keyId: idOf(10) })
      .then(added(10, [...nine.slice(0, 8), { ...key(10), created_at: later(1000).toISOString() }])));
  it('replaces the key of an earlier attempt, which the caller never received', () =>
    given(created, added(1, [{ ...key(1), hash: hashOf(77) }]))
      .when(add(1))
      .then(added(1, [key(1)])));
  it('is refused to a manager without the permissions of the application', () =>
    given({ ...created, data: { ...created.data, type: 'management', permissions: ['log:read'] } })
      .when({ ...add(1), maker: { permissions: ['application:update'] } })
      .thenRefused({ code: 'forbidden' }));
});

describe('a key that is deleted', () => {
  const remove = (keyId: string, at = now) => ({ kind: 'delete-key', keyId, now: at }) as const;
  const removed = (keyId: string, hash: string, wasMain: boolean) =>
    fact(ApplicationKeyDeleted, {
      application_id: id,
      key_id: keyId,
      key_hash: hash,
      was_main: wasMain,
      keys: [],
    });
  it('leaves the others', () =>
    given(created, added(1, [key(1)]))
      .when(remove(idOf(1)))
      .then(removed(idOf(1), hashOf(1), false)));
  it('may be the last key', () =>
    given(created)
      .when(remove(id))
      .then(removed(id, hashOf(0), true)));
  it('is not found when it is unknown, deleted or expired', () => {
    given(created)
      .when(remove(idOf(1)))
      .thenRefused({ code: 'not_found' });
    given(created, removed(id, hashOf(0), true))
      .when(remove(id))
      .thenRefused({ code: 'not_found' });
    given(created, added(1, [key(1, later(1000))]))
      .when(remove(idOf(1), later(1000)))
      .thenRefused({ code: 'not_found' });
  });
});

describe('a key that is regenerated with an overlap', () => {
  const regenerate = {
    kind: 'regenerate-key',
    keyId: idOf(5),
    keyHash: hashOf(5),
    overlap: 60,
    maker: 'operator',
    now,
  } as const;
  const main = {
    id,
    hash: hashOf(0),
    created_at: now.toISOString(),
    expires_at: later(60_000).toISOString(),
  };
  const regenerated = (kept: boolean, keyHash = hashOf(5)) =>
    fact(ApplicationKeyRegenerated, {
      application_id: id,
      key_hash: keyHash,
      key_id: idOf(5),
      keys: [main],
      ...(kept && { kept_key_hash: hashOf(0) }),
    });
  it('keeps the replaced key for the overlap', () => given(created).when(regenerate).then(regenerated(true)));
  it('does not keep the key of an earlier attempt, which the caller never received', () =>
    given(created, regenerated(true, hashOf(77)))
      .when(regenerate)
      .then(regenerated(false)));
  it('is refused when the replaced key would be the eleventh', () =>
    given(...full)
      .when({ ...regenerate, keyId: idOf(50) })
      .thenRefused({ code: 'conflict' }));
});

import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { streams } from '@token-vault/contracts';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import { waitUntil } from '@token-vault/test-support';
import { listenForAccessChanges } from '../src/index.ts';
import { silentLogger } from '@token-vault/observability';
import { applicationId, key, tenantId, useAuthenticator } from './authenticator-setup.ts';

const setup = useAuthenticator();
const { clock } = setup;
const ownStream = streams.application(tenantId, applicationId);

/** Called by the watch. */
const leaseMs = 250;

describe('an application', () => {
  it('is found by its key, with its rules by priority', async () => {
    const found = await setup.authenticator.authenticate(key);
    expect(found).toMatchObject({
      kind: 'authenticated',
      keyHash: hashApiKey(key),
      principal: {
        tenant: { id: tenantId, plan: 'standard' },
        actor: { kind: 'application', id: applicationId },
        permissions: ['token:read'],
        rules: [{ priority: 1 }, { priority: 2 }],
      },
    });
  });

  it('is looked up once a second for any number of calls', async () => {
    const all = await Promise.all(Array.from({ length: 100 }, () => setup.kindOf()));
    expect(new Set(all)).toEqual(new Set(['authenticated']));
    clock.advance(999);
    await setup.kindOf();
    expect(setup.queries).toBe(1);
    clock.advance(1);
    await setup.kindOf();
    expect(setup.queries).toBe(2);
  });

  it('is not cached longer when the clock is set back', async () => {
    await setup.kindOf();
    await setup.regenerate();
    clock.advance(-3_600_000);
    expect(await setup.kindOf()).toBe('retired');
  });

  it('loses its key within a second of the change, and at once after the notification', async () => {
    await setup.kindOf();
    await setup.regenerate();
    expect(await setup.kindOf()).toBe('authenticated');
    setup.authenticator.forget();
    const refused = await setup.authenticator.authenticate(key);
    expect(refused).toEqual({
      kind: 'retired',
      key: { tenantId, applicationId, reason: 'regenerated' },
    });
  });

  it('loses its key at once when the revocation is confirmed, although no notification arrived', async () => {
    await setup.kindOf();
    await setup.regenerate();
    setup.revoke(ownStream);
    expect(await setup.kindOf()).toBe('retired');
  });

  it('ends at the instant of its expiry, also while it is cached', async () => {
    await setup.expireAt('2030-01-01T00:00:00.500Z');
    clock.advance(499);
    expect(await setup.kindOf()).toBe('authenticated');
    clock.advance(1);
    expect(await setup.authenticator.authenticate(key)).toMatchObject({
      kind: 'retired',
      key: { reason: 'expired' },
    });
  });

  it('ends with its tenant', async () => {
    await setup.pool.query('update rm_tenants.tenant set is_deleted = true');
    expect(await setup.kindOf()).toBe('unknown');
  });

  it('is not cached from a look-up that began before the notification of the change', async () => {
    setup.beforeQuery = async () => {
      setup.beforeQuery = async () => {};
      setup.authenticator.forget();
    };
    expect(await setup.kindOf()).toBe('authenticated');
    await setup.kindOf();
    expect(setup.queries).toBe(2);
  });

  it('is looked up again for a request after a change, while an older look-up still runs', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    setup.beforeQuery = () => {
      setup.beforeQuery = async () => {};
      return held;
    };
    const older = setup.kindOf();
    await setup.regenerate();
    setup.authenticator.forget();
    expect(await setup.kindOf()).toBe('retired');
    release();
    await older;
    expect(await setup.kindOf()).toBe('retired');
  });

  it('is unknown when the key never existed, and no query is made for a text that cannot be a key', async () => {
    expect(await setup.kindOf(generateApiKey('pvt'))).toBe('unknown');
    const before = setup.queries;
    for (const text of ['', 'short', 'x'.repeat(201), 'key with spaces', 'key_pvt_\u0000\u0000\u0000'])
      expect(await setup.kindOf(text)).toBe('unknown');
    expect(setup.queries).toBe(before);
  });
});

/** Each step of a look-up takes longer than the lease, and a revocation of this stream is confirmed meanwhile. */
function haveSlowSteps(stream: string): { readonly checkBegun: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const passLease = async () => {
    await delay(leaseMs + 50);
    setup.revoke(stream);
  };
  setup.beforeQuery = passLease;
  setup.beforeLogRead = () => {
    resolve();
    return passLease();
  };
  return { checkBegun: promise };
}

describe('a caller that is looked up while others are revoked', () => {
  it.each([
    ['of its tenant', streams.application(tenantId, randomUUID())],
    ['of another tenant', streams.tenant(randomUUID())],
  ])('is found by one look-up, however long that takes: %s', async (_of, stream) => {
    haveSlowSteps(stream);
    expect(await setup.kindOf()).toBe('authenticated');
    expect(setup.queries).toBe(1);
  });

  it('stays cached', async () => {
    await setup.kindOf();
    setup.revoke(streams.application(tenantId, randomUUID()));
    expect(await setup.kindOf()).toBe('authenticated');
    expect(setup.queries).toBe(1);
  });
});

describe('a caller whose own rights are revoked while it is looked up', () => {
  it.each([streams.tenant(tenantId), ownStream])('is looked up again: %s', async (stream) => {
    setup.beforeLogRead = async () => {
      setup.beforeLogRead = async () => {};
      await setup.regenerate();
      setup.revoke(stream);
    };
    expect(await setup.kindOf()).toBe('retired');
  });

  it('is checked again when its row has changed since', async () => {
    const { checkBegun } = haveSlowSteps(ownStream);
    const found = setup.authenticator.authenticate(key);
    found.catch(() => undefined);
    await checkBegun;
    await setup.pool.query(
      `update rm_applications.application set permissions = '["token:read","token:use"]'`,
    );
    await expect(found).rejects.toMatchObject({ code: 'record_altered' });
  });

  it('is checked again although its row is the same: the old row may have been written back', async () => {
    setup.beforeLogRead = async () => {
      setup.beforeLogRead = async () => {};
      setup.revoke(ownStream);
    };
    setup.beforeQuery = async () => {
      if (setup.queries > 1) setup.streams.set(ownStream, ['ApplicationCreated', 'ApplicationDeleted']);
    };
    expect(await setup.kindOf()).toBe('unknown');
  });

  it('is not known when they change during each of several look-ups', async () => {
    setup.beforeQuery = async () => setup.revoke(ownStream);
    await expect(setup.kindOf()).rejects.toMatchObject({ code: 'unavailable' });
  });
});

it('no caller is found by tables of an older release, until they are rebuilt', async () => {
  await setup.pool.query('alter table rm_applications.session drop column opener_key_hash');
  await expect(setup.authenticator.authenticate(key)).rejects.toMatchObject({ code: 'unavailable' });
});

describe('changes of access', () => {
  it('are received from any process, and after the connection was lost and made again', async () => {
    let changes = 0;
    const listening = await listenForAccessChanges({
      connectionString: setup.database.url,
      logger: silentLogger,
      onChange: () => (changes += 1),
      retryMs: 10,
    });
    const heard = async (cause: () => Promise<unknown>) => {
      const before = changes;
      await cause();
      await waitUntil(() => changes > before, { what: 'a change' });
    };
    await heard(() => setup.pool.query(`notify access_changed`));
    const cut = `select pg_terminate_backend(pid) from pg_stat_activity
                 where application_name = 'vault-access-changes' and datname = current_database()`;
    await heard(() => setup.pool.query(cut));
    const isListening = async () => {
      const { rowCount } = await setup.pool.query(
        `select from pg_stat_activity where application_name = 'vault-access-changes'
         and datname = current_database() and query = 'listen access_changed' and state = 'idle'`,
      );
      return rowCount === 1;
    };
    await waitUntil(isListening, { what: 'a new connection' });
    await heard(() => setup.pool.query(`notify access_changed`));
    await listening.close();
    await listening.close();
  });
});

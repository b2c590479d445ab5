import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { KeysAbandoned } from '@token-vault/contracts';
import { keyIdOf } from '@token-vault/crypto';
import { EventStoreUnavailableError, KeysNotStoredError, type EventStore } from '@token-vault/event-store';
import { silentLogger } from '@token-vault/observability';
import { createAuditTrail } from '@token-vault/operations';
import { fieldsOf } from '@token-vault/test-support';
import { beforeEach, describe, expect, it } from 'vitest';
import { sweptKinds } from '../../src/housekeeping/entity.ts';
import { createTenantCommands } from '../../src/index.ts';
import { anyone, type TestVault } from '../tokens/vault.ts';
import { aToken, type KeySweepTest } from './key-sweep-setup.ts';

/** A write whose event brings a new data key. */
interface Write {
  readonly name: string;
  readonly kind: string;
  /** Called before the write. */
  readonly prepare?: (vault: TestVault) => Promise<unknown>;
  /** Makes the write, or repeats it. Repeats of one write have the same idempotency key. */
  readonly run: (vault: TestVault, idempotencyKey: string) => Promise<unknown>;
}

const managerOf = ({ principal: { tenant } }: TestVault): Principal =>
  anyone({ tenant, applicationType: 'management', rules: [] });

function createTenant({ faults: { store }, keyRing, clock, principal }: TestVault): Promise<unknown> {
  const audit = createAuditTrail(store);
  const commands = createTenantCommands({ store, keyRing, audit, clock, logger: silentLogger });
  return commands.create({ name: 'Acme', plan: 'enterprise', tenantId: principal.tenant.id });
}

const code = 'module.exports = async (req) => ({ raw: req.args });';
const configuration = { KEY: 'secret' };
const writes: readonly Write[] = [
  {
    name: 'a token',
    kind: 'token',
    run: (vault, idempotencyKey) => vault.create(aToken, { idempotencyKey }),
  },
  {
    name: 'a reactor',
    kind: 'reactor',
    run: (vault, idempotencyKey) =>
      vault.call(
        'createReactor',
        { body: { name: 'Pay', code, configuration } },
        { as: managerOf(vault), idempotencyKey },
      ),
  },
  {
    name: 'a proxy',
    kind: 'proxy',
    run: (vault, idempotencyKey) =>
      vault.call(
        'createProxy',
        { body: { name: 'Pay', destination: 'https://pay.example', configuration } },
        { as: managerOf(vault), idempotencyKey },
      ),
  },
  { name: 'a tenant, with its webhook secret', kind: 'tenant', run: createTenant },
  {
    name: 'a webhook secret after the loss of the key of the one before',
    kind: 'tenant',
    async prepare(vault) {
      await createTenant(vault);
      const { id } = vault.principal.tenant;
      await vault.keyRing.destroyKeysOfEntity(id, `tenant:${id}`);
    },
    run: (vault, idempotencyKey) =>
      vault.call('rotateWebhookSecret', { body: {} }, { as: managerOf(vault), idempotencyKey }),
  },
];

const without = (all: readonly string[], some: readonly string[]): string[] =>
  all.filter((each) => !some.includes(each));

/** The ids of the tenant's data keys. */
async function keyIdsOf({ pool, principal }: TestVault): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>('select id from key_ring.data_key where tenant_id = $1', [
    principal.tenant.id,
  ]);
  return rows.map(({ id }) => id);
}

const isOfKind = (vault: TestVault, kind: string, stream: string): boolean =>
  stream.startsWith(`${kind}-${vault.principal.tenant.id}`);

const eventsOfKind = async (vault: TestVault, kind: string) =>
  (await vault.events()).filter(({ stream }) => isOfKind(vault, kind, stream));

/** Opens the value that the newest event of the kind brings. Gives the id of its key. */
async function openNewest(vault: TestVault, kind: string): Promise<string> {
  const values = (await eventsOfKind(vault, kind))
    .flatMap((event) => Object.entries(fieldsOf(event)))
    .filter((field): field is [string, string] => typeof field[1] === 'string')
    .filter(([, value]) => value.startsWith('sv1.'));
  const [, sealed = ''] = values.at(-1) ?? [];
  const { id: tenantId } = vault.principal.tenant;
  const { rows } = await vault.pool.query<{ entity: string; purpose: string }>(
    'select entity, purpose from key_ring.data_key where id = $1',
    [keyIdOf(sealed)],
  );
  const { entity = '', purpose = '' } = rows[0] ?? {};
  await vault.keyRing.open({ tenantId, entity, field: purpose }, sealed);
  return keyIdOf(sealed);
}

/** The key of each kind of write, when its event comes, comes late, or never comes. */
export function describeSweptKinds(sweep: KeySweepTest): void {
  const { pass, passes } = sweep;

  describe.each(writes)('the key of $name', ({ kind, prepare, run }) => {
    let idempotencyKey = '';
    beforeEach(async () => {
      idempotencyKey = randomUUID();
      await prepare?.(sweep.vault);
      await sweep.house.settle();
    });
    const write = () => run(sweep.vault, idempotencyKey);
    const keyIds = () => keyIdsOf(sweep.vault);
    const open = () => openNewest(sweep.vault, kind);

    /** A writer that dies before or after its append. Gives the id of the key that it has made. */
    const cutOff = async (fault: 'before' | 'after'): Promise<string> => {
      const before = await keyIds();
      sweep.vault.faults.decide = (stream) => (isOfKind(sweep.vault, kind, stream) ? fault : undefined);
      await expect(write()).rejects.toThrow(EventStoreUnavailableError);
      sweep.vault.faults.decide = () => undefined;
      const [key = '', ...others] = without(await keyIds(), before);
      expect([key, others]).toEqual([expect.any(String), []]);
      return key;
    };

    it('is destroyed when its writer died before its append, and no other; a repeat makes a new one', async () => {
      const lost = await cutOff('before');
      const before = await keyIds();
      expect(await passes()).toBe(1);
      expect(without(before, await keyIds())).toEqual([lost]);
      expect(sweep.messages).toEqual(['data keys were destroyed whose event never came']);
      expect((await eventsOfKind(sweep.vault, kind)).at(-1)).toMatchObject({
        type: KeysAbandoned.type,
        data: { entity: expect.stringMatching(`^${kind}:`) as unknown, abandoned_key_ids: [lost] },
        metadata: { actor: { kind: 'system', id: 'key-sweep' } },
      });
      await write();
      await sweep.house.settle();
      expect(await passes()).toBe(0);
      expect(await open()).not.toBe(lost);
    });

    it('stays when its writer died after its append', async () => {
      const key = await cutOff('after');
      await sweep.house.settle();
      expect(await passes()).toBe(0);
      expect(await open()).toBe(key);
    });

    /** A late write. A store that checks keys refuses its append, because its key is missing. Then it is repeated. */
    const lateWrite = (): Promise<unknown> => {
      const answer = write();
      if (!sweep.checksKeys) return answer;
      return expect(answer).rejects.toThrow(KeysNotStoredError).then(write);
    };
    /** Runs `work` between the key and the append of the first attempt. */
    const interpose = (work: () => Promise<unknown>): void => {
      let isDone = false;
      sweep.vault.faults.interpose = async (stream) => {
        if (!isOfKind(sweep.vault, kind, stream) || isDone) return;
        isDone = true;
        await work();
      };
    };

    it('makes a late append meet a conflict: its value is sealed anew', async () => {
      let swept = 0;
      interpose(async () => (swept = await passes()));
      await lateWrite();
      expect(swept).toBe(1);
      await open();
      await sweep.house.settle();
      expect(await passes()).toBe(0);
      await open();
    });

    it('stays when its event comes between the look and its end', async () => {
      const { log } = sweep.vault;
      const arrived = Promise.withResolvers<undefined>();
      const goOn = Promise.withResolvers<undefined>();
      interpose(() => {
        arrived.resolve(undefined);
        return goOn.promise;
      });
      const answer = write();
      await Promise.race([arrived.promise, answer]);
      await pass();
      const afterTheWriter: EventStore = {
        ...log,
        async append(...given) {
          goOn.resolve(undefined);
          await answer;
          return log.append(...given);
        },
      };
      expect(await pass(afterTheWriter)).toBe(0);
      await open();
    });
  });

  it('covers every kind of key that is swept', () => {
    expect(new Set(writes.map(({ kind }) => kind))).toEqual(new Set(sweptKinds));
  });
}

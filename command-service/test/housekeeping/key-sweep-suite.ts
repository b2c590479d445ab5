import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Principal } from '@token-vault/access';
import { KeysAbandoned, streams, TokenKeysAbandoned } from '@token-vault/contracts';
import { keyIdOf } from '@token-vault/crypto';
import {
  EventStoreUnavailableError,
  KeysNotStoredError,
  type EventStore,
  type StoredEvent,
} from '@token-vault/event-store';
import { silentLogger } from '@token-vault/observability';
import { createAuditTrail } from '@token-vault/operations';
import { fieldsOf } from '@token-vault/test-support';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemContext } from '../../src/aggregates/system-context.ts';
import { sweptKinds } from '../../src/housekeeping/entity.ts';
import { KeySweep } from '../../src/housekeeping/key-sweep.ts';
import { createTenantCommands } from '../../src/index.ts';
import { anyone, card, type TestVault, type VaultOptions } from '../tokens/vault.ts';
import { hearingLogger, openHouse, type House } from './house.ts';

const aToken = { type: 'token', data: 'secret' };
const foreign = 'the log is not the one of before: keys made until now stay';

/** A write whose event brings a new data key. */
interface Write {
  readonly what: string;
  readonly kind: string;
  /** What comes before it. */
  readonly prepare?: (vault: TestVault) => Promise<unknown>;
  /** Does it, or repeats it. Repeats of one write have the same idempotency key. */
  readonly run: (vault: TestVault, idempotencyKey: string) => Promise<unknown>;
}

const managerOf = ({ principal: { tenant } }: TestVault): Principal =>
  anyone({ tenant, applicationType: 'management', rules: [] });

function createTenant({ faults: { store }, keyRing, clock, principal }: TestVault): Promise<unknown> {
  const audit = createAuditTrail(store);
  const commands = createTenantCommands({ store, keyRing, audit, clock, logger: silentLogger });
  return commands.create({ name: 'Acme', plan: 'enterprise', tenantId: principal.tenant.id });
}

const without = (all: readonly string[], some: readonly string[]): string[] =>
  all.filter((each) => !some.includes(each));

const code = 'module.exports = async (req) => ({ raw: req.args });';
const configuration = { KEY: 'secret' };
const writes: readonly Write[] = [
  {
    what: 'a token',
    kind: 'token',
    run: (vault, idempotencyKey) => vault.create(aToken, { idempotencyKey }),
  },
  {
    what: 'a reactor',
    kind: 'reactor',
    run: (vault, idempotencyKey) =>
      vault.call(
        'createReactor',
        { body: { name: 'Pay', code, configuration } },
        { as: managerOf(vault), idempotencyKey },
      ),
  },
  {
    what: 'a proxy',
    kind: 'proxy',
    run: (vault, idempotencyKey) =>
      vault.call(
        'createProxy',
        { body: { name: 'Pay', destination: 'https://pay.example', configuration } },
        { as: managerOf(vault), idempotencyKey },
      ),
  },
  { what: 'a tenant, with its webhook secret', kind: 'tenant', run: createTenant },
  {
    what: 'a webhook secret after the loss of the key of the one before',
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

/** The sweep of keys without events on a real key ring and a log of this kind. */
export function describeKeySweep(name: string, options: VaultOptions): void {
  describe(`the sweep of keys without events, with the log ${name}`, () => {
    let house: House;
    let logger = hearingLogger();
    beforeAll(async () => {
      house = await openHouse(options);
    });
    afterAll(() => house.close());

    const sweepOf = (store: EventStore = house.vault.log) => {
      const { keyRing, pool, clock } = house.vault;
      return new KeySweep({ store, keyRing, pool, clock, logger, graceMs: 0 });
    };
    /** A pass after all that was done before. The clock of the keys is that of the machine, as Postgres'. */
    const pass = async (store?: EventStore): Promise<number> => {
      await sleep(5);
      const destroyed = await sweepOf(store).pass(new AbortController().signal);
      await sleep(5);
      house.vault.clock.set(new Date());
      return destroyed;
    };
    /** The first pass after the age is reached notes the log, the second looks at the keys. */
    const passes = async (): Promise<number> => (await pass()) + (await pass());

    beforeEach(async () => {
      logger = hearingLogger();
      await house.vault.pool.query('delete from housekeeping.key_sweep');
      await house.vault.newTenant();
      await house.vault.create(aToken);
      await house.settle();
      await pass();
    });
    afterEach(() => {
      house.vault.faults.decide = () => undefined;
      house.vault.faults.interpose = async () => undefined;
    });

    describe.each(writes)('the key of $what', ({ kind, prepare, run }) => {
      let idempotencyKey = '';
      beforeEach(async () => {
        idempotencyKey = randomUUID();
        await prepare?.(house.vault);
        await house.settle();
      });
      const write = () => run(house.vault, idempotencyKey);

      const isOfKind = (stream: string) => stream.startsWith(`${kind}-${house.vault.principal.tenant.id}`);
      const keyIds = async (): Promise<string[]> => {
        const { rows } = await house.vault.pool.query<{ id: string }>(
          'select id from key_ring.data_key where tenant_id = $1',
          [house.vault.principal.tenant.id],
        );
        return rows.map(({ id }) => id);
      };
      /** A writer that dies before or after its append. Gives the key that it had made. */
      const cutOff = async (fault: 'before' | 'after'): Promise<string> => {
        const before = await keyIds();
        house.vault.faults.decide = (stream) => (isOfKind(stream) ? fault : undefined);
        await expect(write()).rejects.toThrow(EventStoreUnavailableError);
        house.vault.faults.decide = () => undefined;
        const [key = '', ...others] = without(await keyIds(), before);
        expect([key, others]).toEqual([expect.any(String), []]);
        return key;
      };
      /** Opens the value that the newest event of the kind brings. Gives its key. */
      const open = async (): Promise<string> => {
        const events = (await house.vault.events()).filter(({ stream }) => isOfKind(stream));
        const values = events
          .flatMap((event) => Object.entries(fieldsOf(event)))
          .filter((field): field is [string, string] => typeof field[1] === 'string')
          .filter(([, value]) => value.startsWith('sv1.'));
        const [, sealed = ''] = values.at(-1) ?? [];
        const { id: tenantId } = house.vault.principal.tenant;
        const { rows } = await house.vault.pool.query<{ entity: string; purpose: string }>(
          'select entity, purpose from key_ring.data_key where id = $1',
          [keyIdOf(sealed)],
        );
        const { entity = '', purpose = '' } = rows[0] ?? {};
        await house.vault.keyRing.open({ tenantId, entity, field: purpose }, sealed);
        return keyIdOf(sealed);
      };
      const lastEvent = async () =>
        (await house.vault.events()).filter(({ stream }) => isOfKind(stream)).at(-1);

      it('is destroyed when its writer died before its append, and no other; a repeat makes a new one', async () => {
        const lost = await cutOff('before');
        const before = await keyIds();
        expect(await passes()).toBe(1);
        expect(without(before, await keyIds())).toEqual([lost]);
        expect(logger.messages).toEqual(['data keys were destroyed whose event never came']);
        expect(await lastEvent()).toMatchObject({
          type: KeysAbandoned.type,
          data: { entity: expect.stringMatching(`^${kind}:`) as unknown, abandoned_key_ids: [lost] },
          metadata: { actor: { kind: 'system', id: 'key-sweep' } },
        });
        await write();
        await house.settle();
        expect(await passes()).toBe(0);
        expect(await open()).not.toBe(lost);
      });

      it('stays when its writer died after its append', async () => {
        const key = await cutOff('after');
        await house.settle();
        expect(await passes()).toBe(0);
        expect(await open()).toBe(key);
      });

      /** A late write. Where the append looks for its keys, it is refused as one without keys, and is repeated. */
      const lateWrite = (): Promise<unknown> => {
        const answer = write();
        if (options.durability !== 'follows-log') return answer;
        return expect(answer).rejects.toThrow(KeysNotStoredError).then(write);
      };
      /** Does something between the key and the append of the first attempt. */
      const interpose = (work: () => Promise<unknown>): void => {
        let isDone = false;
        house.vault.faults.interpose = async (stream) => {
          if (!isOfKind(stream) || isDone) return;
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
        await house.settle();
        expect(await passes()).toBe(0);
        await open();
      });

      it('stays when its event comes between the look and its end', async () => {
        const { log } = house.vault;
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

    const tokenStream = (id: string) => streams.token(house.vault.principal.tenant.id, id);
    const hasKey = async (id: string) => (await house.vault.keys()).includes(`${id} data`);
    /** A writer that dies before or after its append. */
    const cutOff = async (fault: 'before' | 'after', body: object = aToken): Promise<string> => {
      const id = `cut-${randomUUID()}`;
      house.vault.faults.decide = (stream) => (stream === tokenStream(id) ? fault : undefined);
      await expect(house.vault.create({ ...body, id })).rejects.toThrow(EventStoreUnavailableError);
      house.vault.faults.decide = () => undefined;
      expect(await hasKey(id)).toBe(true);
      return id;
    };

    it('leaves the key of a cvc to its own end', async () => {
      const lost = await cutOff('before', { type: 'card', data: { number: card, cvc: '123' } });
      expect(await passes()).toBe(1);
      expect(await house.vault.keys()).toContain(`${lost} cvc`);
      expect(await hasKey(lost)).toBe(false);
    });

    it('destroys a key also when a later token has the same id, and leaves that token as it is', async () => {
      const lost = await cutOff('before');
      await house.vault.create({ ...aToken, id: lost });
      await house.settle();
      expect(await passes()).toBe(1);
      expect(await house.vault.stored(lost)).toMatchObject({ data: 'secret' });
      await house.vault.update(lost, { data: 'changed' });
      await house.settle();
      expect(await passes()).toBe(0);
      expect(await house.vault.stored(lost)).toMatchObject({ data: 'changed' });
    });

    it('destroys a key that the release before has abandoned', async () => {
      const { principal, clock, log } = house.vault;
      const id = await cutOff('before');
      const { rows } = await house.vault.pool.query<{ key: string }>(
        'select id as key from key_ring.data_key where tenant_id = $1 and entity = $2',
        [principal.tenant.id, `token:${id}`],
      );
      const abandoned = { token_id: id, abandoned_key_ids: rows.map(({ key }) => key) };
      const context = systemContext(principal.tenant.id, 'key-sweep', clock);
      await log.append(tokenStream(id), [context.event(TokenKeysAbandoned, abandoned)], 'no-stream');
      expect(await passes()).toBe(1);
      expect(await hasKey(id)).toBe(false);
    });

    it('asks the log, not the read model: an unanswered write, and one that the read model lacks, keep their keys', async () => {
      const { vault } = house;
      const unanswered = await cutOff('after');
      const { id } = await vault.create(aToken);
      await house.settle();
      await house.tamper('delete from token where id = any($1)', [[unanswered, id]]);
      expect(await passes()).toBe(0);
      expect([await vault.stored(unanswered), await vault.stored(id)]).toMatchObject([
        { data: 'secret' },
        { data: 'secret' },
      ]);
    });

    /** A late create. Where the append looks for its keys, it is refused as one without keys, and is repeated. */
    const lateCreate = (id: string): Promise<unknown> => {
      const answer = house.vault.create({ ...aToken, id });
      if (options.durability !== 'follows-log') return answer;
      return expect(answer)
        .rejects.toThrow(KeysNotStoredError)
        .then(() => house.vault.create({ ...aToken, id }));
    };

    it('makes a late append meet a conflict on the stream of an ended token, too', async () => {
      const { vault } = house;
      const { id } = await vault.create({ ...aToken, id: `again-${randomUUID()}` });
      await vault.remove(id);
      let late = 0;
      vault.faults.interpose = async (stream) => {
        // The first append finds that the stream exists. The second one is late.
        if (stream !== tokenStream(id) || (late += 1) !== 2) return;
        await house.settle();
        expect(await passes()).toBe(1);
      };
      await lateCreate(id);
      expect(late).toBeGreaterThan(2);
      expect(await vault.stored(id)).toMatchObject({ data: 'secret' });
    });

    it('keeps the keys of an open transaction', async () => {
      const { vault } = house;
      const transaction = await vault.begin();
      const { id } = await vault.create(aToken, { transaction });
      await house.settle();
      await house.tamper('delete from token where id = $1', [id]);
      expect(await passes()).toBe(0);
      await vault.end('commit', transaction);
      expect(await vault.stored(id)).toMatchObject({ data: 'secret' });
    });

    it('destroys each key once when two processes believe that they lead', async () => {
      const lost = [await cutOff('before'), await cutOff('before')];
      await pass();
      const [one = 0, other = 0] = await Promise.all([pass(), pass()]);
      expect(one + other).toBe(2);
      for (const id of lost) expect(await hasKey(id)).toBe(false);
    });

    it('leaves keys from before its first pass, and from before a pause', async () => {
      const { pool } = house.vault;
      const early = await cutOff('before');
      await pool.query('delete from housekeeping.key_sweep');
      expect((await pass()) + (await passes())).toBe(0);
      const late = await cutOff('before');
      await pool.query(`update housekeeping.key_sweep set noted_at = noted_at - interval '11 minutes'`);
      expect((await pass()) + (await passes())).toBe(0);
      expect([await hasKey(early), await hasKey(late)]).toEqual([true, true]);
      expect(logger.messages).toEqual([]);
    });

    it('does nothing while the log is away, and goes on then', async () => {
      const lost = await cutOff('before');
      await pass();
      const away = () => Promise.reject(new EventStoreUnavailableError('away'));
      await expect(pass({ ...house.vault.log, append: away })).rejects.toThrow('away');
      expect(await hasKey(lost)).toBe(true);
      expect(await pass()).toBe(1);
    });

    describe('of a log that is not the one of before', () => {
      async function* none(): AsyncGenerator<never> {}
      /** The log without its events from now on, as an older copy that was put in its place. */
      const older = (store: EventStore, last?: StoredEvent): EventStore => ({
        ...store,
        append: () => Promise.reject(new Error('nothing is appended to a doubtful log')),
        async *readStoredBackwards() {
          if (last) yield [last];
        },
        readStoredStream: none,
      });
      const lastEvent = async (): Promise<StoredEvent | undefined> => {
        for await (const [event] of house.vault.log.readStoredBackwards()) return event;
        return undefined;
      };

      it.each(['an empty log', 'another log, or an older one that has grown'])(
        'leaves all keys: %s',
        async (what) => {
          const lost = await cutOff('before');
          await pass();
          const last = await lastEvent();
          const other = last && { ...last, id: randomUUID(), position: last.position };
          expect(await pass(older(house.vault.log, what === 'an empty log' ? undefined : other))).toBe(0);
          // Also when the newer log is back.
          expect((await pass()) + (await passes())).toBe(0);
          expect(await hasKey(lost)).toBe(true);
          expect(logger.messages[0]).toEqual(foreign);
        },
      );

      it('leaves all keys when only events since the last pass are missing', async () => {
        const lost = await cutOff('before');
        await pass();
        const marked = await lastEvent();
        await house.vault.create(aToken);
        await house.settle();
        const { log } = house.vault;
        const short = { ...older(log, marked), readStoredStream: log.readStoredStream.bind(log) };
        expect(await pass(short)).toBe(0);
        expect(await hasKey(lost)).toBe(true);
        expect(logger.messages).toEqual([foreign]);
      });

      it('leaves a key of a stream that lacks events', async () => {
        const lost = await cutOff('before');
        await house.vault.create({ ...aToken, id: lost });
        await house.vault.create(aToken);
        await house.settle();
        await pass();
        const { log } = house.vault;
        const truncated: EventStore = {
          ...log,
          async *readStoredStream(stream, range) {
            for await (const event of log.readStoredStream(stream, range))
              if (stream !== tokenStream(lost) || event.revision > 0) yield event;
          },
        };
        // The first pass adds an event to a stream that seems to be empty, and is told where. The second reads it.
        const after: EventStore['append'] = (stream, events) => log.append(stream, events, 'exists');
        expect(await pass({ ...truncated, append: after })).toBe(0);
        await house.vault.pool.query(
          `update housekeeping.key_sweep set after = '00000000-0000-0000-0000-000000000000'`,
        );
        await pass(truncated);
        const { rowCount } = await house.vault.pool.query(
          'select from key_ring.data_key where tenant_id = $1 and entity = $2',
          [house.vault.principal.tenant.id, `token:${lost}`],
        );
        expect(rowCount).toBe(2);
        expect(logger.messages).not.toContain(foreign);
      });

      it('leaves a key when the log is replaced while the key is looked at', async () => {
        const lost = await cutOff('before');
        await pass();
        const { log } = house.vault;
        let isReplaced = false;
        const replaced: EventStore = {
          ...log,
          async append(...given) {
            isReplaced = true;
            return log.append(...given);
          },
          readStoredStream: (...given) => (isReplaced ? none() : log.readStoredStream(...given)),
        };
        expect(await pass(replaced)).toBe(0);
        expect(isReplaced).toBe(true);
        expect(await hasKey(lost)).toBe(true);
        expect(logger.messages).toEqual([foreign]);
      });
    });
  });
}

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { streams } from '@token-vault/contracts';
import {
  EventStoreUnavailableError,
  KeysNotStoredError,
  type EventStore,
  type StoredEvent,
} from '@token-vault/event-store';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { KeySweep } from '../../src/housekeeping/key-sweep.ts';
import { card, type VaultOptions } from '../tokens/vault.ts';
import { hearingLogger, openHouse, type House } from './house.ts';

const aToken = { type: 'token', data: 'secret' };
const foreign = 'the log is not the one of before: keys made until now stay';

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

    it('destroys the key of a writer that died before its append, and no other', async () => {
      const { vault } = house;
      const kept = await vault.create(aToken);
      const lost = await cutOff('before', { type: 'card', data: { number: card, cvc: '123' } });
      expect(await passes()).toBe(1);
      // The key of a cvc ends by itself.
      expect(await vault.keys()).toContain(`${lost} cvc`);
      expect(await hasKey(lost)).toBe(false);
      expect(logger.messages).toEqual(['data keys were destroyed whose event never came']);
      expect(await house.typesOf(lost)).toEqual(['TokenKeysAbandoned']);
      await vault.create({ ...aToken, id: lost });
      await house.settle();
      expect(await passes()).toBe(0);
      expect([await vault.stored(lost), await vault.stored(kept.id)]).toMatchObject([
        { data: 'secret' },
        { data: 'secret' },
      ]);
    });

    it('destroys it also when a later token has the same id, and leaves that token as it is', async () => {
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

    it('makes a late append meet a conflict: its token is sealed anew', async () => {
      const { vault } = house;
      const id = `late-${randomUUID()}`;
      const arrived = Promise.withResolvers<undefined>();
      const goOn = Promise.withResolvers<undefined>();
      vault.faults.interpose = async (stream) => {
        if (stream !== tokenStream(id)) return;
        arrived.resolve(undefined);
        await goOn.promise;
      };
      const answer = lateCreate(id);
      await arrived.promise;
      expect(await passes()).toBe(1);
      expect(await hasKey(id)).toBe(false);
      goOn.resolve(undefined);
      await answer;
      expect(await vault.stored(id)).toMatchObject({ data: 'secret' });
      await house.settle();
      expect(await passes()).toBe(0);
    });

    it('makes it meet a conflict on the stream of an ended token, too', async () => {
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

    it('keeps a key whose event comes between the look and the end of the key', async () => {
      const { vault } = house;
      const id = `just-${randomUUID()}`;
      const arrived = Promise.withResolvers<undefined>();
      const goOn = Promise.withResolvers<undefined>();
      vault.faults.interpose = async (stream) => {
        if (stream !== tokenStream(id)) return;
        arrived.resolve(undefined);
        await goOn.promise;
      };
      const answer = vault.create({ ...aToken, id });
      await arrived.promise;
      await pass();
      const { log } = vault;
      const afterTheWriter: EventStore = {
        ...log,
        async append(...given) {
          goOn.resolve(undefined);
          await answer;
          return log.append(...given);
        },
      };
      expect(await pass(afterTheWriter)).toBe(0);
      expect(await house.typesOf(id)).toEqual(['TokenCreated']);
      expect(await vault.stored(id)).toMatchObject({ data: 'secret' });
    });

    it('leaves a request that is repeated after an hour its token', async () => {
      const { vault } = house;
      const id = `repeat-${randomUUID()}`;
      const idempotencyKey = randomUUID();
      const create = () => vault.create({ ...aToken, id }, { idempotencyKey });
      vault.faults.decide = (stream) => (stream === tokenStream(id) ? 'before' : undefined);
      await expect(create()).rejects.toThrow(EventStoreUnavailableError);
      vault.faults.decide = () => undefined;
      expect(await passes()).toBe(1);
      await create();
      await house.settle();
      expect(await passes()).toBe(0);
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

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { streams } from '@token-vault/contracts';
import { EventStoreUnavailableError, type EventStore } from '@token-vault/event-store';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { KeySweep } from '../../src/housekeeping/key-sweep.ts';
import type { VaultOptions } from '../tokens/vault.ts';
import { recordingLogger, openHouse, type House } from './house.ts';

export const aToken = { type: 'token', data: 'secret' };

/**
 * A vault for the tests of a `describe` block, with a real key ring and a log of this kind, and the sweep of keys without events. Each test
 * has a tenant of its own, and begins after a first pass.
 */
export interface KeySweepLog extends VaultOptions {
  /** Writes many events of another application to the server of the log, where that can have some. */
  readonly writeForeignEvents?: (() => Promise<void>) | undefined;
}

export function useKeySweep(options: KeySweepLog) {
  let house: House;
  let logger = recordingLogger();

  /** One pass over all keys that exist. */
  const pass = async (store: EventStore = house.vault.log): Promise<number> => {
    const { keyRing, pool, clock } = house.vault;
    const sweep = new KeySweep({ store, keyRing, pool, clock, logger, graceMs: 0 });
    // The times of keys are milliseconds of the machine's clock, as those of Postgres. The pauses separate the keys that are made before the
    // pass from those that are made after it.
    await sleep(5);
    const destroyed = await sweep.pass(new AbortController().signal);
    await sleep(5);
    house.vault.clock.set(new Date());
    return destroyed;
  };
  /** The first pass over new keys notes the log, the second looks at the keys. */
  const passes = async (): Promise<number> => (await pass()) + (await pass());

  const tokenStream = (id: string) => streams.token(house.vault.principal.tenant.id, id);
  const hasKey = async (id: string) => (await house.vault.keys()).includes(`${id} data`);

  /** Creates a token by a writer that dies before or after its append. Gives the id of the token. */
  const cutOff = async (fault: 'before' | 'after', body: object = aToken): Promise<string> => {
    const id = `cut-${randomUUID()}`;
    house.vault.faults.decide = (stream) => (stream === tokenStream(id) ? fault : undefined);
    await expect(house.vault.create({ ...body, id })).rejects.toThrow(EventStoreUnavailableError);
    house.vault.faults.decide = () => undefined;
    expect(await hasKey(id)).toBe(true);
    return id;
  };

  beforeAll(async () => {
    house = await openHouse(options);
  });
  afterAll(() => house.close());
  beforeEach(async () => {
    logger = recordingLogger();
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

  return {
    get house() {
      return house;
    },
    get vault() {
      return house.vault;
    },
    /** The messages that the sweep has logged in this test. */
    get messages() {
      return logger.messages;
    },
    writeForeignEvents: options.writeForeignEvents,
    /** Whether an append finds out that its keys are missing, and is refused. */
    checksKeys: options.durability === 'follows-log',
    pass,
    passes,
    tokenStream,
    hasKey,
    cutOff,
  };
}

export type KeySweepTest = ReturnType<typeof useKeySweep>;

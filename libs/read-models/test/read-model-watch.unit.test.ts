import {
  authenticationReadModels,
  operations,
  UnavailableError,
  type Operation,
} from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { KnownRevocations, watchReadModels, type ReadModelWatch } from '../src/index.ts';

const at = (position: number) => String(position) as Position;

let nowMs: number;
let reads: number;
let statuses: Record<string, { position: Position; status: string }>;
let revocations: KnownRevocations;
/** Runs while a read is under way. */
let meanwhile: () => void;
let isReadable: boolean;
let watch: ReadModelWatch;

beforeEach(() => {
  nowMs = 1_000_000;
  reads = 0;
  revocations = new KnownRevocations(1);
  meanwhile = () => {};
  isReadable = true;
  statuses = {
    applications: { position: at(5), status: 'live' },
    tenants: { position: at(5), status: 'live' },
    tokens: { position: at(5), status: 'live' },
  };
  watch = watchReadModels({
    nowMs: () => nowMs,
    progress: {
      read: async () => {
        reads += 1;
        if (!isReadable) return undefined;
        const read = { beganMs: nowMs, checkpoints: new Map(Object.entries(statuses)), revocations };
        meanwhile();
        return read;
      },
    },
  });
});

afterEach(() => {
  vi.useRealTimers();
});

const stands = (name: 'applications' | 'tenants' | 'tokens') =>
  expect(watch.requireMoving([name])).rejects.toThrow(UnavailableError);
const moves = (name: 'applications' | 'tenants' | 'tokens') =>
  expect(watch.requireMoving([name])).resolves.toBeUndefined();

describe('a read model', () => {
  it.each(['failed', 'paused'])('that is %s counts as stopped; the others do not', async (status) => {
    statuses['tokens'] = { position: at(5), status };
    await stands('tokens');
    await moves('applications');
  });

  it('that does not exist counts as stopped', async () => {
    delete statuses['tokens'];
    await stands('tokens');
  });

  it('of an older release counts as moving while it is not behind', async () => {
    statuses['tokens'] = { position: at(5), status: 'outdated' };
    await moves('tokens');
  });

  it('counts as stopped when it has not applied an event that this process stored 10 s ago, until it has applied it', async () => {
    watch.noteEvent(at(6));
    nowMs += 9_999;
    await moves('tokens');
    nowMs += 1;
    await stands('tokens');
    statuses['tokens'] = { position: at(6), status: 'live' };
    nowMs += 250;
    await moves('tokens');
  });

  it('is judged by the oldest event that it has not applied, not by later events', async () => {
    for (let event = 6; event < 1_000; event += 1) {
      watch.noteEvent(at(event));
      nowMs += 20;
      statuses['tokens'] = { position: at(event - 400), status: 'live' };
      if (event > 600) await moves('tokens');
    }
    statuses['tokens'] = { position: at(400), status: 'live' };
    nowMs += 250;
    await stands('tokens');
  });

  it('is not behind in an idle vault', async () => {
    watch.noteEvent(at(5));
    nowMs += 3_600_000;
    await moves('tokens');
  });

  it('counts as stopped when it is 10 s behind another one', async () => {
    statuses['applications'] = { position: at(9), status: 'live' };
    await moves('tokens');
    nowMs += 10_000;
    await stands('tokens');
    await moves('applications');
  });

  it('counts as stopped at once in a process that was asked nothing, 10 s after another one was said to move', async () => {
    vi.useFakeTimers();
    statuses['applications'] = { position: at(9), status: 'live' };
    watch.readSoon();
    watch.readSoon();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(reads).toBe(1);
    nowMs += 10_000;
    await stands('tokens');
    await moves('applications');
  });
});

describe('the state of the read models', () => {
  it('is read once for each lease, and renewed before the lease ends', async () => {
    await moves('tokens');
    nowMs += 99;
    await moves('tokens');
    expect(reads).toBe(1);
    nowMs += 1;
    await moves('tokens');
    expect(reads).toBe(2);
    statuses['tokens'] = { position: at(5), status: 'failed' };
    await moves('tokens');
    nowMs += 250;
    await stands('tokens');
  });

  it('is read again after a notification of a changed status, also while it is being read', async () => {
    await moves('tokens');
    meanwhile = () => {
      meanwhile = () => {};
      statuses['tokens'] = { position: at(5), status: 'paused' };
      nowMs += 1;
      watch.forget();
    };
    watch.forget();
    await stands('tokens');
  });

  it('must be readable', async () => {
    isReadable = false;
    await stands('tokens');
    expect(reads).toBeLessThan(10);
  });

  it('of a process that was stopped is not used: it is read again', async () => {
    meanwhile = () => {
      // The answer waited for an hour in the stopped process.
      meanwhile = () => {};
      nowMs += 3_600_000;
      statuses['tokens'] = { position: at(5), status: 'failed' };
    };
    await stands('tokens');
  });
});

describe('the caller', () => {
  const own = ['application-a', 'tenant-t'];
  const revoke = (...streams: string[]) => {
    const generation = revocations.generation + 1;
    revocations = revocations.upTo(
      generation,
      streams.map((stream) => [generation, stream]),
    );
  };
  /** A look-up that takes longer than the lease, and what happens meanwhile. Counts the look-ups. */
  function lookUp(during: (lookUps: number) => void) {
    let lookUps = 0;
    return watch.current(({ generation }) => {
      lookUps += 1;
      nowMs += 251;
      during(lookUps);
      return { found: lookUps, generation, streams: own };
    });
  }

  it('is looked up again when a revocation of it was confirmed meanwhile, even by a process that was stopped', async () => {
    const rights = ['reveal', 'none'];
    const found = await watch.current(({ generation }) => {
      const right = rights.shift();
      // The process is stopped here. Meanwhile another process confirms a revocation, which takes longer than the lease.
      if (right === 'reveal') {
        revoke('application-a');
        nowMs += 251;
      }
      return { found: right, generation, streams: own };
    });
    expect(found).toBe('none');
  });

  it.each(authenticationReadModels)('is not known while %s has stopped', async (name) => {
    statuses[name] = { position: at(5), status: 'paused' };
    const read = ({ generation }: KnownRevocations) => ({ found: 'the caller', generation, streams: own });
    await expect(watch.current(read)).rejects.toThrow(UnavailableError);
  });

  it('is looked up once although others are revoked continuously and the look-up takes longer than the lease', async () => {
    expect(await lookUp(() => revoke('application-b', 'tenant-u'))).toBe(1);
  });

  it('is looked up again when it cannot be known whose rights changed', async () => {
    expect(await lookUp((lookUps) => lookUps < 3 && revoke())).toBe(3);
  });

  it('is not known when its own rights change during each of several look-ups', async () => {
    await expect(lookUp(() => revoke('application-b', 'tenant-t'))).rejects.toThrow(UnavailableError);
  });

  it('is known on a machine that reads the state too slowly a few times', async () => {
    let slowReads = 8;
    meanwhile = () => {
      if (slowReads-- > 0) nowMs += 300;
    };
    expect(await watch.current(({ generation }) => ({ found: 'x', generation, streams: own }))).toBe('x');
  });
});

describe('the operations table', () => {
  it('names the read models of every query', () => {
    for (const operation of Object.values<Operation>(operations))
      expect(operation.answersFrom !== undefined).toBe(operation.service === 'query');
  });
});

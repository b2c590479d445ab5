import {
  DomainError,
  KnownOutcomeError,
  OutcomeUnknownError,
  UnavailableError,
} from '@token-vault/contracts';
import {
  AppendUnansweredError,
  EventStoreUnavailableError,
  RevisionConflictError,
  type EventStore,
} from '@token-vault/event-store';
import { describe, expect, it } from 'vitest';
import { noteWrites, runCommand } from '../src/writes.ts';

const lostConnection = new Error('Connection terminated unexpectedly');

const storeWith = (append: () => Promise<unknown>) => noteWrites({ append } as unknown as EventStore);
const stored = () => Promise.resolve({ position: '1', revision: 0 });

/** Appends once, then fails with this error. Returns the error that the command gets. */
const failAfterAppend = (append: () => Promise<unknown>, failure: Error): Promise<unknown> =>
  runCommand(async () => {
    await storeWith(append).append('stream', [], 'any');
    throw failure;
  }).catch((error: unknown) => error);

describe('a command whose store is unavailable', () => {
  it.each([new EventStoreUnavailableError('down'), lostConnection])(
    'did nothing when it has not appended: %s',
    async (failure) => {
      await expect(runCommand(() => Promise.reject(failure))).rejects.toBe(failure);
    },
  );

  it('has done nothing when its append was not sent', async () => {
    const unsent = new EventStoreUnavailableError('down');
    expect(await failAfterAppend(() => Promise.reject(unsent), lostConnection)).toBe(unsent);
  });

  it('has an unknown outcome when its append was sent and not answered', async () => {
    const unanswered = () => Promise.reject(new AppendUnansweredError('lost'));
    expect(await failAfterAppend(unanswered, lostConnection)).toBeInstanceOf(OutcomeUnknownError);
  });

  it('has an unknown outcome when that comes after an append', async () => {
    const unavailable = [new EventStoreUnavailableError('down'), new UnavailableError('stands still')];
    for (const failure of [lostConnection, new DomainError('insufficient_storage', 'full'), ...unavailable])
      expect(await failAfterAppend(stored, failure)).toBeInstanceOf(OutcomeUnknownError);
  });

  it('gets an error that says what was done, and errors that do not become 503', async () => {
    const known = new KnownOutcomeError('stored, not confirmed');
    for (const failure of [
      known,
      new DomainError('rate_limited', 'too many'),
      new RevisionConflictError('s', 0, 1),
    ])
      expect(await failAfterAppend(stored, failure)).toBe(failure);
  });
});

it('a command ignores the appends of another', async () => {
  const { promise: other, reject: fail } = Promise.withResolvers<never>();
  const failing = runCommand(() => other);
  await runCommand(() => storeWith(stored).append('stream', [], 'any'));
  fail(lostConnection);
  await expect(failing).rejects.toBe(lostConnection);
});

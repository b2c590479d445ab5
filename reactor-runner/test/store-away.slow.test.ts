import { EventStoreUnavailableError, type EventStore } from '@token-vault/event-store';
import { expect, it } from 'vitest';
import { useRunnerFixture, type RunnerFixture } from './runner-fixture.ts';

let fixture: RunnerFixture;
useRunnerFixture((made) => (fixture = made));

// The pauses between the attempts grow to 3.2 s, so the eighth comes after 12 s.
it('the outcome of a run is recorded when the event store is away for longer than for its other steps', async () => {
  let refusals = 7;
  const append: EventStore['append'] = (stream, events, ...others) => {
    if (events[0]?.type !== 'ReactorSucceeded' || refusals === 0)
      return fixture.store.append(stream, events, ...others);
    refusals -= 1;
    return Promise.reject(new EventStoreUnavailableError('down'));
  };
  const invocation = await fixture.invoke({});
  const runner = fixture.runner({ store: { ...fixture.store, append } });
  await runner.handle(await fixture.historyOf(invocation));
  expect(await fixture.typesOf(invocation)).toEqual(['ReactorInvoked', 'ReactorStarted', 'ReactorSucceeded']);
});

import type { RecordedEvent } from '@token-vault/event-store';
import { expect, it } from 'vitest';
import { delayableEventsOf } from '../src/runner/delayable-events.ts';

const event = (type: string) => ({ type, data: {} }) as unknown as RecordedEvent;

it.each([
  ['TokensRead', true],
  ['AccessDenied', true],
  ['ReactorInvoked', true],
  ['ReactorStarted', true],
  ['ReactorSucceeded', true],
  ['ReactorFailed', true],
  ['ReactorCreated', false],
  ['TokenCreated', false],
  ['ApplicationUpdated', false],
])('%s may reach a read model that is awaited a moment later: %s', (type, expected) => {
  expect(delayableEventsOf({})(event(type))).toBe(expected);
});

it('a projection that no answer waits for may get all events a moment later', () => {
  expect(delayableEventsOf({ isAwaited: false })(event('TokenCreated'))).toBe(true);
});

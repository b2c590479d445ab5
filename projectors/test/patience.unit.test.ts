import type { RecordedEvent } from '@token-vault/event-store';
import { expect, it } from 'vitest';
import { canWait } from '../src/runner/patience.ts';

const canWaitFor = (type: string, data: object = {}) => canWait({ type, data } as unknown as RecordedEvent);

it.each([
  ['TokensRead', {}, true],
  ['AccessDenied', {}, true],
  ['ReactorStarted', {}, true],
  ['ReactorInvoked', { mode: 'sync' }, true],
  // Its 202 waits to be visible.
  ['ReactorInvoked', { mode: 'async' }, false],
  ['ReactorSucceeded', { mode: 'sync' }, false],
  ['TokenCreated', {}, false],
  ['ApplicationUpdated', {}, false],
])('%s %j may reach the read models a moment later: %s', (type, data, expected) => {
  expect(canWaitFor(type, data)).toBe(expected);
});

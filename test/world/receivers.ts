import { waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { startDestination, type Destination } from '../e2e/destination.ts';
import { startGate, type Gate } from '../e2e/gate.ts';
import { startReceiver, type Receiver } from '../e2e/receiver.ts';
import { standIn } from './stand-in.ts';

/**
 * A receiver of webhooks and of requests of code: a new one for each test (`beforeEach`), or one for the tests of the
 * file (`beforeAll`).
 */
export function useReceiver(begin: typeof beforeAll | typeof beforeEach): Receiver {
  let current: Receiver;
  begin(async () => {
    current = await startReceiver();
    return () => current.close();
  });
  return standIn(() => current);
}

/** A destination of proxies, for the tests of the file. Each test starts with no requests and the usual answer. */
export function useDestination(): Destination {
  let destination: Destination;
  let usual: Destination['answer'];
  beforeAll(async () => {
    destination = await startDestination();
    usual = destination.answer;
    return () => destination.close();
  });
  beforeEach(() => {
    destination.arrived.length = 0;
    destination.answer = usual;
  });
  return standIn(() => destination);
}

/** A destination of proxies and webhooks, and its gate, which delays connections. Each test starts with none. */
export function useDelayedDestination(): { readonly destination: Destination; readonly gate: Gate } {
  let destination: Destination;
  let gate: Gate;
  beforeAll(async () => {
    destination = await startDestination();
    gate = await startGate(destination);
  });
  afterAll(async () => {
    gate.close();
    await destination.close();
  });
  beforeEach(() => {
    gate.clear();
    destination.arrived.length = 0;
  });
  return { destination: standIn(() => destination), gate: standIn(() => gate) };
}

/** Waits until the vault decides the rights again that it has read at `sinceMs` (of `performance.now()`). */
export const passDecisionTime = (sinceMs: number): Promise<boolean> =>
  waitUntil(() => performance.now() - sinceMs > 250, { what: 'the time' });

import { randomUUID } from 'node:crypto';
import { defineEvent, EventRegistry, type NewEvent } from '@token-vault/contracts';
import { z } from 'zod';
import type { EventBatch, EventStore, Recorded } from '../port.ts';

/** Events of the contract suite, which does not use the events of the vault. */
export const testRegistry = new EventRegistry([
  defineEvent('Noted', z.object({ text: z.string() })),
  defineEvent('Recorded', z.object({ value: z.json() })),
]);

/** The events of a later release: `Noted` has a second version. */
export const laterRegistry = new EventRegistry([
  defineEvent('Noted', z.object({ text: z.string(), language: z.string() }), [
    (data) => ({ ...data, language: 'unknown' }),
  ]),
  defineEvent('Recorded', z.object({ value: z.json() })),
]);

/** The port over the suite's events: their data is any JSON object. */
export type SuiteStore = EventStore<NewEvent>;
export type SuiteEvent = Recorded<NewEvent>;
export type SuiteBatch = EventBatch<NewEvent>;

/** Adapters have the type of the vault's events. A store that was opened with a registry of the suite holds events of the suite. */
export const asSuiteStore = (store: EventStore): SuiteStore => store as unknown as SuiteStore;

const metadata: NewEvent['metadata'] = {
  tenant_id: '00000000-0000-4000-8000-000000000001',
  actor: { kind: 'system', id: 'contract-suite' },
  trace_id: 'trace',
  correlation_id: 'correlation',
  occurred_at: '2026-01-01T00:00:00.000Z',
};

export function noted(text: string, id: string = randomUUID()): NewEvent {
  return { id, type: 'Noted', version: 1, data: { text }, metadata };
}

export function notedLater(text: string): NewEvent {
  return { id: randomUUID(), type: 'Noted', version: 2, data: { text, language: 'en' }, metadata };
}

export function recorded(value: NewEvent['data'][string]): NewEvent {
  return { id: randomUUID(), type: 'Recorded', version: 1, data: { value }, metadata };
}

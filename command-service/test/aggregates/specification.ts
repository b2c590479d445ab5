import { randomUUID } from 'node:crypto';
import { newEvent, type Actor } from '@token-vault/contracts';
import type { Position, RecordedEvent } from '@token-vault/event-store';
import { expect } from 'vitest';
import type { Decider, Fact } from '../../src/aggregates/decider.ts';

export const tenantId = '00000000-0000-4000-8000-000000000001';
export const now = new Date('2030-01-01T00:00:00.000Z');
export const later = (ms: number): Date => new Date(now.getTime() + ms);

/** Events of the past, as the log holds them. */
export type Past = Fact & { readonly actor?: Actor; readonly at?: Date };

function recorded(past: Past, revision: number): RecordedEvent {
  const event = newEvent(past, past.data, {
    id: randomUUID(),
    metadata: {
      tenant_id: tenantId,
      actor: past.actor ?? { kind: 'application', id: 'app' },
      trace_id: 'trace',
      correlation_id: 'trace',
      occurred_at: (past.at ?? now).toISOString(),
    },
  });
  return { ...event, stream: 'stream', revision, position: String(revision + 1) as Position };
}

/** `given(…events).when(command).then(…facts)`, or `.thenRefused({ code })`. */
export function specify<State, Command>(decider: Decider<State, Command>) {
  return {
    given: (...past: Past[]) => {
      const state = past.map(recorded).reduce(decider.evolve, decider.initialState);
      return {
        state,
        when: (command: Command) => ({
          then: (...facts: Fact[]) => expect(decider.decide(state, command)).toEqual(facts),
          thenNothing: () => expect(decider.decide(state, command)).toEqual([]),
          thenRefused: (problem: { code: string; errors?: unknown }) =>
            expect(() => decider.decide(state, command)).toThrow(expect.objectContaining(problem) as Error),
        }),
      };
    },
  };
}

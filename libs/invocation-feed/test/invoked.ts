import { randomUUID } from 'node:crypto';
import { defineEvent, EventRegistry, type NewEvent, type VaultEvent } from '@token-vault/contracts';
import { startPosition, type Position } from '@token-vault/event-store';
import { z } from 'zod';
import type { CheckpointStore, Invocation, ToInvocation } from '../src/port.ts';

// Events that make invocations due, and other events between them, as in a real log.

const ids = z.object({ invocation_id: z.string() });

export const registry = new EventRegistry([defineEvent('Invoked', ids), defineEvent('Noise', ids)]);

/** The port is typed for the vault's events; the tests have events of their own. */
export const toInvocation: ToInvocation = (event) => {
  const { type, data, metadata } = event as unknown as NewEvent;
  return type === 'Invoked'
    ? { tenantId: metadata.tenant_id, invocationId: data['invocation_id'] as string }
    : undefined;
};

export function invoked({ tenantId, invocationId }: Invocation, type = 'Invoked'): VaultEvent {
  const event: NewEvent = {
    id: randomUUID(),
    type,
    version: 1,
    data: { invocation_id: invocationId },
    metadata: {
      tenant_id: tenantId,
      actor: { kind: 'system', id: 'test' },
      trace_id: 'trace',
      correlation_id: 'correlation',
      occurred_at: '2026-01-01T00:00:00.000Z',
    },
  };
  return event as unknown as VaultEvent;
}

export interface TestCheckpoints extends CheckpointStore {
  readonly saved: Position[];
  // Properties with functions, so that tests may destructure them.
  readonly load: () => Promise<Position>;
  readonly save: (position: Position) => Promise<void>;
}

/** Checkpoints that outlive the feeds that use them. */
export function testCheckpoints(): TestCheckpoints {
  const saved: Position[] = [];
  return {
    saved,
    load: async () => saved.at(-1) ?? startPosition,
    save: async (position) => void saved.push(position),
  };
}

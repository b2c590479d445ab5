import type { Principal } from '@token-vault/access';
import { operations, streams, type OperationId, secret } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import { describe, expect, it } from 'vitest';
import type { Answer } from '../src/handlers.ts';
import { waitForOwnWrite } from '../src/read-models.ts';

const principal: Principal = {
  tenant: { id: 't', plan: 'standard', settings: {} },
  actor: { kind: 'session', id: 's' },
  applicationId: 'a',
  applicationType: 'management',
  permissions: [],
  rules: [],
};

/** The streams whose revocation is confirmed before the answer leaves. */
async function confirmedBy(id: OperationId, answer: Answer): Promise<readonly string[]> {
  const confirmed: string[] = [];
  const request = {
    traceId: 'trace',
    identify: async () => ({ kind: 'unknown' }) as const,
    params: {},
    query: {},
    readBody: async () => secret(undefined),
  };
  const progress = {
    waitFor: async () => true,
    reach: async () => true,
    recovered: async () => true,
    losses: 0,
  };
  const revocations = {
    async confirm(_position: Position, revoked: readonly string[]) {
      confirmed.push(...revoked);
      return 'as usual' as const;
    },
  };
  const call = { id, operation: operations[id], request };
  await waitForOwnWrite({ progress, revocations }, call, principal, {
    position: '5' as Position,
    ...answer,
  });
  return confirmed;
}

describe('a revocation is confirmed', () => {
  it('of the entity that the operation names', async () => {
    expect(await confirmedBy('endConsoleSession', {})).toEqual([streams.consoleSession('t', 's')]);
  });

  it('of the streams that the answer names', async () => {
    expect(await confirmedBy('openConsoleSession', {})).toEqual([]);
    expect(await confirmedBy('openConsoleSession', { revoked: ['one', 'other'] })).toEqual(['one', 'other']);
  });
});

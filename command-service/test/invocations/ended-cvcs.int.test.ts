import { randomUUID } from 'node:crypto';
import { invocationPlace, type JsonInput } from '@token-vault/contracts';
import { secret } from '@token-vault/crypto';
import { startPosition } from '@token-vault/event-store';
import { createRequestContext } from '@token-vault/operations';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { answerNow } from '../../src/invocations/answers.ts';
import type { OutcomeEvent } from '../../src/invocations/state.ts';
import { openVault, type TestVault } from '../tokens/vault.ts';

// The code of a run was given a cvc, and its result or its error holds it. The cvc ends while the tokens of the run are read.

let vault: TestVault;
beforeAll(async () => {
  vault = await openVault();
  await vault.newTenant();
});
afterAll(() => vault.close());

const leftMs = 60_000;

const values: Readonly<Record<OutcomeEvent['type'], JsonInput>> = {
  ReactorSucceeded: { raw: { cvc: '737' } },
  ReactorFailed: { detail: 'Reactor Runtime Error', errors: { error: ['the cvc is 737'] } },
};

async function outcomeOf(type: OutcomeEvent['type'], invocationId: string, reactorId: string) {
  const { keyRing, clock, principal } = vault;
  const end = new Date(clock.now().getTime() + leftMs);
  const place = invocationPlace(principal.tenant.id, invocationId, 'outcome_with_tokens');
  const seen = { seen: [], isSeenComplete: true, cvcEndsAt: end.toISOString() };
  const sealed = await keyRing.sealNew(place, secret({ type, value: values[type], ...seen }), {
    destroyAfter: end,
  });
  const context = createRequestContext({ principal, traceId: 'run', now: clock.now() });
  const run = { invocation_id: invocationId, reactor_id: reactorId, mode: 'sync' } as const;
  const kept = { ...run, sealed_with_tokens: true } as const;
  const stored = { stream: 'invocation', revision: 2, position: startPosition };
  const { metadata } = context;
  const event =
    type === 'ReactorSucceeded'
      ? { type, data: { ...kept, result: sealed } }
      : { type, data: { ...kept, status: 500, reason: 'runtime-error', problem: sealed } };
  return { ...event, id: randomUUID(), metadata, ...stored } as OutcomeEvent;
}

/** The answer to a run, whose tokens take so long to read. Its text, or that of its error. */
async function answerAfter(type: OutcomeEvent['type'], ms: number): Promise<string> {
  const { keyRing, clock, principal } = vault;
  const [invocationId, reactorId] = [randomUUID(), randomUUID()];
  const outcome = await outcomeOf(type, invocationId, reactorId);
  const since = clock.now();
  const asked = { tenantId: principal.tenant.id, invocationId, reactorId, reactorRevision: 0 };
  const dependencies = {
    store: vault.log,
    keyRing,
    tokenUse: { decisionOn: async () => () => undefined },
    async decisionOnSeen() {
      clock.advance(ms);
      return async () => ({ refusal: undefined, record: async () => undefined });
    },
    refuseOwner: async () => undefined,
  };
  const context = createRequestContext({ principal, traceId: 'run', now: since });
  const answer = answerNow(dependencies, { asked, outcome, usedTokenIds: [], since, isFirst: true }, context);
  return answer.then(
    ({ body }) => JSON.stringify(body),
    (error: unknown) => JSON.stringify([String(error), error]),
  );
}

it.each(['ReactorSucceeded', 'ReactorFailed'] as const)(
  'the answer to a run (%s) that holds a cvc is withheld when the cvc ends while it is decided',
  async (type) => {
    expect(await answerAfter(type, leftMs - 1)).toContain('737');
    const late = await answerAfter(type, leftMs);
    expect(late).not.toContain('737');
    expect(late).toContain('its result is no longer kept');
  },
);

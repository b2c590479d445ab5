import {
  ForbiddenError,
  newEvent,
  newId,
  streams,
  TokenDeleted,
  type ParentRun,
} from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import type { DecisionOnUse } from '../src/runs/ports.ts';
import { Deliveries } from '../src/webhooks/deliver.ts';
import {
  answered,
  invoker,
  noLimit,
  nothingSeen,
  tenantId,
  url,
  useRunnerFixture,
  type RunnerFixture,
} from './runner-fixture.ts';

let fixture: RunnerFixture;
useRunnerFixture((opened) => (fixture = opened));

/**
 * Decides by whether a token is there. When `isOvertaken` says so, the token is deleted a moment after it was read, as while other tokens are
 * read that take longer.
 */
function decisionOnToken(isOvertaken: () => boolean): DecisionOnUse {
  const stream = streams.token(tenantId, 'one');
  const deleted = () =>
    newEvent(
      TokenDeleted,
      { token_id: 'one', token_type: 'token', key_ids: [] },
      {
        id: newId(),
        metadata: {
          tenant_id: tenantId,
          actor: { kind: 'application', id: 'app' },
          trace_id: 'trace',
          correlation_id: 'trace',
          occurred_at: fixture.clock.now().toISOString(),
        },
      },
    );
  return async () => {
    for await (const _ of fixture.store.readStream(stream)) return () => new ForbiddenError('gone');
    if (isOvertaken()) await fixture.store.append(stream, [deleted()], 'no-stream');
    return () => undefined;
  };
}

const outer = (): ParentRun => ({
  actor: { kind: 'application', id: 'outer' },
  since: fixture.clock.now().toISOString(),
  tokenIds: ['one'],
  owner: { reactorId: newId(), revision: 0 },
  seen: [],
  isSeenComplete: true,
});

describe('a token that is deleted when it was read, while others are being read', () => {
  it('begins no nested run of one that used it', async () => {
    const invocation = await fixture.invoke({}, undefined, { parents: [outer()] });
    const runner = fixture.runner({ decisionOnUse: decisionOnToken(() => true) });
    await runner.handle(await fixture.historyOf(invocation));
    expect(fixture.runs).toHaveLength(0);
  });

  it('is sent nowhere by a run that goes on', async () => {
    let sent = 0;
    let isSending = false;
    fixture.sandbox = async ({ hostCalls }) => {
      isSending = true;
      await hostCalls.fetch?.({ url, method: 'POST', headers: [], body: new Uint8Array() });
      return { kind: 'succeeded', result: { raw: null }, console: { lines: [], truncated: false } };
    };
    const runner = fixture.runner({
      decisionOnUse: decisionOnToken(() => isSending),
      async fetch({ permit }) {
        await permit?.();
        sent += 1;
        return answered;
      },
    });
    await runner.handle(await fixture.historyOf(await fixture.invoke({})));
    expect(sent).toBe(0);
  });

  it('makes the delivery of the result a refusal', async () => {
    const invocation = await fixture.invoke({}, url);
    await fixture.runner().handle(await fixture.historyOf(invocation));
    const sent: string[] = [];
    let decisions = 0;
    const deliveries = new Deliveries({
      ...fixture,
      findInvoker: async (ofTenant, actor) => invoker(ofTenant, actor),
      // Two decisions before the connection, and two when it is there: about the caller alone, and with the result opened.
      decisionOnUse: decisionOnToken(() => (decisions += 1) === 4),
      refuseOwner: async () => undefined,
      decisionOnSeen: nothingSeen,
      async fetch({ permit, body }) {
        await permit?.();
        sent.push(Buffer.from(body ?? []).toString());
        return answered;
      },
    });
    await deliveries.deliver(tenantId, invocation.id, noLimit);
    expect(decisions).toBe(4);
    expect(sent).toEqual([expect.stringContaining('gone')]);
  });
});

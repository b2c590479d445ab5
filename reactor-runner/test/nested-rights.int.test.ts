import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { ForbiddenError, newId, type ParentRun } from '@token-vault/contracts';
import { expect, it } from 'vitest';
import type { DecisionOnSeen } from '../src/runs/ports.ts';
import {
  answered,
  invoker,
  nothingSeen,
  url,
  useRunnerFixture,
  type RunnerFixture,
} from './runner-fixture.ts';

let fixture: RunnerFixture;
useRunnerFixture((opened) => (fixture = opened));

it.each([false, true])(
  'a nested run sends nothing when the caller of the outer run lost its rights while tokens were read: %s',
  async (isWithdrawn) => {
    let sent = 0;
    let isSending = false;
    let hasRights = true;
    const rightsFound = Promise.withResolvers<void>();
    fixture.sandbox = async ({ hostCalls }) => {
      isSending = true;
      await hostCalls.fetch?.({ url, method: 'POST', headers: [], body: new Uint8Array() });
      return { kind: 'succeeded', result: { raw: null }, console: { lines: [], truncated: false } };
    };
    const outer: ParentRun = {
      actor: { kind: 'application', id: 'outer' },
      since: fixture.clock.now().toISOString(),
      tokenIds: [],
      owner: { reactorId: newId(), revision: 0 },
      seen: [{ id: 'quickly read' }],
      isSeenComplete: true,
    };
    const decisionOnSeen: DecisionOnSeen = async (seen, ...more) => {
      if (isSending && seen.length === 0) {
        // The tokens of the inner run take longer than the search for the rights of the outer one, if that has begun.
        await Promise.race([rightsFound.promise, delay(50)]);
        if (isWithdrawn) hasRights = false;
      }
      return nothingSeen(seen, ...more);
    };
    const invocation = await fixture.invoke({}, undefined, { parents: [outer] });
    const runner = fixture.runner({
      decisionOnSeen,
      async findInvoker(ofTenant, actor) {
        if (actor.id !== 'outer') return invoker(ofTenant, actor);
        if (isSending) rightsFound.resolve();
        return hasRights ? invoker(ofTenant, actor) : undefined;
      },
      async fetch({ permit }) {
        await permit?.();
        sent += 1;
        return answered;
      },
    });
    await runner.handle(await fixture.historyOf(invocation));
    expect(sent).toBe(isWithdrawn ? 0 : 1);
  },
);

it.each([false, true])(
  'a run sends nothing when its application lost its rights while the tokens of the arguments were read: %s',
  async (isWithdrawn) => {
    let sent = 0;
    let isSending = false;
    let hasRights = true;
    fixture.sandbox = async ({ hostCalls }) => {
      isSending = true;
      await hostCalls.fetch?.({ url, method: 'POST', headers: [], body: new Uint8Array() });
      return { kind: 'succeeded', result: { raw: null }, console: { lines: [], truncated: false } };
    };
    const runner = fixture.runner({
      findInvoker: async (ofTenant, actor) => invoker(ofTenant, actor),
      async decisionOnUse() {
        await nextTurn();
        if (isSending && isWithdrawn) hasRights = false;
        return () => undefined;
      },
      decisionOnSeen: async () => async () => ({
        refusal: hasRights ? undefined : new ForbiddenError('narrowed'),
        record: async () => undefined,
      }),
      async fetch({ permit }) {
        await permit?.();
        sent += 1;
        return answered;
      },
    });
    await runner.handle(await fixture.historyOf(await fixture.invoke({})));
    expect(sent).toBe(isWithdrawn ? 0 : 1);
  },
);

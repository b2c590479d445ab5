import { newId, streams, type ParentRun } from '@token-vault/contracts';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createRunnerFixture, invoker, tenantId, type RunnerFixture } from './runner-fixture.ts';

let fixture: RunnerFixture;
beforeEach(async () => {
  fixture = await createRunnerFixture();
});
afterEach(() => fixture.close());

it('a run whose arguments are refused because the caller of an outer run has ended leaves an entry', async () => {
  const owner = { reactorId: newId(), revision: 0 };
  const outer: ParentRun = {
    actor: { kind: 'application', id: 'outer' },
    since: fixture.clock.now().toISOString(),
    tokenIds: [],
    owner,
    seen: [],
    isSeenComplete: true,
  };
  const data = { id: 'one-token', type: 'token', data: '1' };
  let isThere = true;
  const runner = fixture.runner({
    findInvoker: async (ofTenant, actor) =>
      isThere || actor.id !== 'outer' ? invoker(ofTenant, actor) : undefined,
    // The outer caller is deleted when its rights were found, and before the expressions are evaluated.
    async openTokens(_ids, _context, make) {
      isThere = false;
      return { made: make(new Map([['one-token', { data, token: data }]])), use: [], madeAt: new Map() };
    },
  });
  const args = { value: "{{ one-token | remove: '1' }}" };
  const invocation = await fixture.invoke(args, undefined, { parents: [outer], token_ids: ['one-token'] });
  await runner.handle(await fixture.historyOf(invocation));
  const { outcome } = await fixture.historyOf(invocation);
  expect(outcome?.data).toMatchObject({ status: 403, reason: 'forbidden' });
  const entries = [];
  const day = fixture.clock.now().toISOString().slice(0, 10);
  for await (const event of fixture.store.readStream(streams.access(tenantId, day))) entries.push(event);
  expect(entries).toMatchObject([
    {
      type: 'AccessDenied',
      data: { entity_type: 'reactor', entity_id: owner.reactorId, operation: 'react' },
      metadata: { actor: outer.actor },
    },
  ]);
});

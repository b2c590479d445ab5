import { runConsolePlace, type JsonObject } from '@token-vault/contracts';
import { KeyDestroyedError } from '@token-vault/crypto';
import { fieldsOf } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import type { Invocation } from '../src/runs/invocation.ts';
import type { OpenTokens } from '../src/runs/ports.ts';
import type { RunDependencies } from '../src/runs/run.ts';
import type { GuestConsole, RunOutcome } from '../src/sandbox/index.ts';
import {
  invoker,
  noLimit,
  nothingSeen,
  tenantId,
  useRunnerFixture,
  type RunnerFixture,
} from './runner-fixture.ts';
import { Deliveries } from '../src/webhooks/deliver.ts';

const minuteMs = 60_000;
const printed: GuestConsole = { lines: [{ level: 'log', text: 'seen 4242' }], truncated: true };
const ends: readonly RunOutcome[] = [
  { kind: 'succeeded', result: { raw: 1 }, console: printed },
  { kind: 'failed', status: 500, detail: 'd', errors: {}, console: printed },
  { kind: 'timed-out', console: printed },
];

let fixture: RunnerFixture;
useRunnerFixture((made) => (fixture = made));

/** The sealed lines in the outcome of a run. */
async function runTo(
  outcome: RunOutcome,
  {
    changes,
    callbackUrl,
    tokenIds = [],
    depth = 0,
  }: {
    readonly changes?: Partial<RunDependencies>;
    readonly callbackUrl?: string;
    readonly tokenIds?: readonly string[];
    readonly depth?: number;
  } = {},
): Promise<{ readonly invocation: Invocation; readonly sealed: unknown }> {
  fixture.sandbox = () => Promise.resolve(outcome);
  const invocation = await fixture.invoke({}, callbackUrl, { token_ids: [...tokenIds], depth });
  await fixture.runner(changes).handle(await fixture.historyOf(invocation));
  const event = (await fixture.eventsOf(invocation)).at(-1);
  expect(JSON.stringify(event)).not.toContain('seen 4242');
  return { invocation, sealed: fieldsOf(event)['console'] };
}
const open = async ({ id }: Invocation, sealed: unknown): Promise<JsonObject> =>
  (await fixture.keyRing.open<JsonObject>(runConsolePlace(tenantId, id), String(sealed))).expose();

describe('the printed lines of a run', () => {
  it.each(ends)('are sealed for an hour: $kind', async (outcome) => {
    const { invocation, sealed } = await runTo(outcome);
    expect(await open(invocation, sealed)).toEqual({
      lines: [...printed.lines],
      isCut: true,
      sawTokens: false,
      endsAt: new Date(fixture.clock.now().getTime() + 60 * minuteMs).toISOString(),
    });
    fixture.clock.advance(60 * minuteMs + 1);
    await expect(open(invocation, sealed)).rejects.toThrow(KeyDestroyedError);
  });

  it('are not kept when the code got a token', async () => {
    const openTokens: OpenTokens = async (_ids, _context, make) => ({
      made: make(new Map()),
      use: [],
      madeAt: new Map(),
    });
    const { invocation, sealed } = await runTo(ends[0]!, { changes: { openTokens }, tokenIds: ['one'] });
    expect(await open(invocation, sealed)).toMatchObject({ lines: [], sawTokens: true });
  });

  it('are not kept when other code invoked the run', async () => {
    const { invocation, sealed } = await runTo(ends[0]!, { depth: 1 });
    expect(await open(invocation, sealed)).toMatchObject({ lines: [], sawTokens: true });
  });

  it('are not kept when the code makes tokens of its output', async () => {
    const result = { tokenize: { a: { type: 'token', data: '7' } } };
    const { invocation, sealed } = await runTo({ kind: 'succeeded', result, console: printed });
    expect(await open(invocation, sealed)).toMatchObject({ lines: [], sawTokens: true });
  });

  it('are kept longer than the result, which ends when it is delivered', async () => {
    const { invocation, sealed } = await runTo(ends[0]!, { callbackUrl: 'https://example.com/' });
    await new Deliveries({
      ...fixture,
      fetch: () =>
        Promise.resolve({
          status: 204,
          statusText: '',
          headers: [],
          body: new Uint8Array(),
          url: '',
          redirected: false,
        }),
      findInvoker: (ofTenant, actor) => Promise.resolve(invoker(ofTenant, actor)),
      decisionOnUse: () => Promise.resolve(() => undefined),
      refuseOwner: () => Promise.resolve(undefined),
      decisionOnSeen: nothingSeen,
    }).deliver(tenantId, invocation.id, noLimit);
    const outcome = (await fixture.eventsOf(invocation)).find(({ type }) => type === 'ReactorSucceeded');
    await expect(fixture.open(invocation, 'outcome', fieldsOf(outcome)['result'])).rejects.toThrow(
      KeyDestroyedError,
    );
    expect(await open(invocation, sealed)).toMatchObject({ isCut: true });
  });

  it('are not in the outcome when nothing was printed', async () => {
    const { sealed } = await runTo({
      kind: 'succeeded',
      result: {},
      console: { lines: [], truncated: false },
    });
    expect(sealed).toBeUndefined();
  });
});

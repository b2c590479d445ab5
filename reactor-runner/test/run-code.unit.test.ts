import { ForbiddenError } from '@token-vault/contracts';
import type { EgressRequest } from '@token-vault/egress';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import type { RunOrigin } from '../src/runs/ports.ts';
import { runCode, type CodeDependencies } from '../src/runs/run-code.ts';

/** Ends the decisions that were begun, in their order. */
let decisions: { readonly allow: () => void; readonly refuse: () => void }[];
/** The requests that left. */
let sent: string[];
let recorded: number;

const request = (url: string): EgressRequest => ({ url, method: 'GET', headers: [], redirect: 'follow' });

/** Runs code that sends requests to these URLs at once. Gives the errors of those that were refused. */
function send(urls: readonly string[]): Promise<readonly unknown[]> {
  const errors: unknown[] = [];
  const dependencies = {
    operations: {},
    fetch: async ({ url, permit }: { url: string; permit: () => Promise<void> }) => {
      await permit();
      sent.push(url);
    },
    sandbox: {
      async run({ hostCalls }: { hostCalls: { fetch: (asked: EgressRequest) => Promise<unknown> } }) {
        const all = await Promise.allSettled(urls.map((url) => hostCalls.fetch(request(url))));
        errors.push(...all.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : [])));
        return { kind: 'succeeded', result: { raw: null }, console: { lines: [], isCut: false } };
      },
    },
  } as unknown as CodeDependencies;
  const requireSendable = () =>
    new Promise<void>((resolve, reject) => {
      decisions.push({ allow: resolve, refuse: () => reject(new ForbiddenError('The right is gone.')) });
    });
  const origin = { tenantId: 't', requireSendable, recordRefusal: async () => void (recorded += 1) };
  return runCode(dependencies, {
    code: '',
    args: {},
    configuration: {},
    applicationId: undefined,
    timeoutMs: 1_000,
    origin: origin as unknown as RunOrigin,
    writer: new ForbiddenError('The code makes no tokens.'),
    signal: new AbortController().signal,
  }).then(() => errors);
}

beforeEach(() => {
  decisions = [];
  sent = [];
  recorded = 0;
});

describe('requests that code sends at once', () => {
  const urls = ['first', 'second', 'third'];

  it('share a decision that begins after all of them', async () => {
    const done = send(urls);
    await nextTurn();
    expect(decisions).toHaveLength(1);
    decisions[0]?.allow();
    await nextTurn();
    expect(sent).toEqual(['first']);
    expect(decisions).toHaveLength(2);
    decisions[1]?.allow();
    expect(await done).toEqual([]);
    expect(sent).toEqual(urls);
  });

  it('are all refused by the decision that they share, which is recorded once', async () => {
    const done = send(urls);
    await nextTurn();
    decisions[0]?.allow();
    await nextTurn();
    decisions[1]?.refuse();
    const errors = await done;
    expect(errors.map(String)).toEqual(Array(2).fill('ForbiddenError: The right is gone.'));
    expect(sent).toEqual(['first']);
    expect(recorded).toBe(1);
  });
});

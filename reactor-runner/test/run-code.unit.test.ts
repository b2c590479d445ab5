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

/** Runs code. `send` has it send a request; `done` ends it, and gives the errors of the requests that were refused. */
function open() {
  const requests: Promise<unknown>[] = [];
  let ask = (_asked: EgressRequest): Promise<unknown> => Promise.resolve();
  const end = Promise.withResolvers<void>();
  const dependencies = {
    operations: {},
    fetch: async ({ url, permit }: { url: string; permit: () => Promise<void> }) => {
      await permit();
      sent.push(url);
    },
    sandbox: {
      async run({ hostCalls }: { hostCalls: { fetch: typeof ask } }) {
        ask = hostCalls.fetch;
        await end.promise;
        return { kind: 'succeeded', result: { raw: null }, console: { lines: [], isCut: false } };
      },
    },
  } as unknown as CodeDependencies;
  const requireSendable = () =>
    new Promise<void>((resolve, reject) => {
      decisions.push({ allow: resolve, refuse: () => reject(new ForbiddenError('The right is gone.')) });
    });
  const origin = { tenantId: 't', requireSendable, recordRefusal: async () => void (recorded += 1) };
  const running = runCode(dependencies, {
    code: '',
    args: {},
    configuration: {},
    applicationId: undefined,
    timeoutMs: 1_000,
    origin: origin as unknown as RunOrigin,
    writer: new ForbiddenError('The code makes no tokens.'),
    signal: new AbortController().signal,
  });
  return {
    send(url: string) {
      const answer = ask(request(url));
      answer.catch(() => undefined);
      requests.push(answer);
    },
    async done() {
      const all = await Promise.allSettled(requests);
      end.resolve();
      await running;
      return all.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
    },
  };
}

beforeEach(() => {
  decisions = [];
  sent = [];
  recorded = 0;
});

describe('requests that code sends at once', () => {
  it('share a decision that begins after all of them, and one that comes during a decision waits for the next', async () => {
    const code = open();
    for (const url of ['first', 'second']) code.send(url);
    await nextTurn();
    expect(decisions).toHaveLength(1);
    code.send('third');
    await nextTurn();
    decisions[0]?.allow();
    await nextTurn();
    expect(sent).toEqual(['first', 'second']);
    expect(decisions).toHaveLength(2);
    decisions[1]?.allow();
    expect(await code.done()).toEqual([]);
    expect(sent).toEqual(['first', 'second', 'third']);
  });

  it('are all refused by the decision that they share, which is recorded once, and the next ones are decided anew', async () => {
    const code = open();
    for (const url of ['first', 'second']) code.send(url);
    await nextTurn();
    code.send('third');
    decisions[0]?.refuse();
    await nextTurn();
    decisions[1]?.allow();
    const errors = await code.done();
    expect(errors.map(String)).toEqual(Array(2).fill('ForbiddenError: The right is gone.'));
    expect(sent).toEqual(['third']);
    expect(recorded).toBe(1);
  });
});

import { waitUntil } from '@token-vault/test-support';
import { beforeEach } from 'vitest';
import { useReceiver } from '../world/receivers.ts';
import { type Caller, makeReactorBy } from '../world/vault.ts';
import type { SignalledStack } from './signalled-stack.ts';

/** The number of asynchronous runs of one application in one runner, where several of its tenant have runs. */
const places = 2;

/** Asks the vault again and again, for tokens that are not there. After a 503 it goes on until it is answered again, so that its result can be sent. */
const code = `module.exports = async ({ svc, configuration }) => {
  const ask = () => svc.tokens.list({ metadata: { nobody: 'has this' } });
  await ask();
  await fetch(configuration.GATE);
  let refused;
  for (;;) {
    try {
      await ask();
      if (refused) return { raw: refused };
    } catch (error) {
      refused ??= { status: error.status, atMs: Date.now() };
      if (error.status !== 503) return { raw: refused };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};`;

/** Runs in each reactor-runner of a stack, whose code asks the vault. */
export function useAskingRuns(stack: () => SignalledStack) {
  const gate = useReceiver(beforeEach);
  const results = useReceiver(beforeEach);

  return {
    /**
     * Starts runs that take all places of the invoker in both runners, by the rights of `application`. Gives their results when they have ended: `raw` says
     * how and when the first request was refused.
     */
    async start(application: Caller, invoker: Caller): Promise<() => Promise<readonly unknown[]>> {
      const all = Array.from({ length: 2 * places }, () => 'hang' as const);
      const configuration = { GATE: gate.url };
      const id = await makeReactorBy(stack().vault.client(), code, { application, configuration });
      gate.plan(...all);
      const body = { args: {}, callback_url: results.url };
      for (const _run of all) await invoker.client.expect(202, 'POST', `/reactors/${id}/react`, { body });
      // One runner alone would leave half of them waiting.
      await waitUntil(() => gate.held === all.length, { timeoutMs: 60_000, what: 'runs in both runners' });
      gate.release();
      return async () => {
        await waitUntil(() => results.deliveries.length === all.length, {
          timeoutMs: 60_000,
          what: 'the results of the runs',
        });
        return results.deliveries.map(({ text }) => JSON.parse(text) as unknown);
      };
    },
  };
}

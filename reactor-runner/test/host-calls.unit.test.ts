import { presentTenants } from '@token-vault/batching';
import type { EgressRequest } from '@token-vault/egress';
import { waitUntil } from '@token-vault/test-support';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { answerHostCall } from '../src/sandbox/host-calls.ts';
import { defaultSandboxLimits } from '../src/sandbox/limits.ts';

/** The URLs of the requests that left, in order. */
let sent: string[];
beforeEach(() => {
  sent = [];
});
afterEach(() => vi.useRealTimers());

async function call(tenantId: string, url: string): Promise<void> {
  const fetch = async (request: EgressRequest) => {
    sent.push(request.url);
    return { status: 200, statusText: '', url, redirected: false, headers: [], body: new Uint8Array() };
  };
  const payload = JSON.stringify({ url, method: 'GET', headers: [] });
  const holder = { tenantId, applicationId: 'only' };
  const caller = { calls: { fetch }, holder, signal: new AbortController().signal };
  void answerHostCall(caller, { method: 'fetch', payload }, defaultSandboxLimits);
  await nextTurn();
}

describe('calls of guest code', () => {
  it('are done at once for a tenant that is alone', async () => {
    await waitUntil(() => Promise.resolve(presentTenants.isAlone('alone')), {
      what: 'the end of other tests',
    });
    for (const url of ['first', 'second', 'third']) await call('alone', url);
    expect(sent).toEqual(['first', 'second', 'third']);
  });

  it('leave time between them beside other tenants, and do not delay those of others', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const pass = (ms: number) => {
      presentTenants.see('other');
      return vi.advanceTimersByTimeAsync(ms);
    };
    await pass(0);
    for (const url of ['first', 'second', 'third']) await call('greedy', url);
    await call('other', 'of another tenant');
    expect(sent).toEqual(['first', 'of another tenant']);
    await pass(2);
    expect(sent).toEqual(['first', 'of another tenant', 'second']);
    await pass(2);
    expect(sent).toEqual(['first', 'of another tenant', 'second', 'third']);
  });
});

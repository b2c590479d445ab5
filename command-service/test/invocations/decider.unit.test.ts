import {
  ReactorFailed,
  ReactorInvocationSigned,
  ReactorInvoked,
  ReactorStarted,
  ReactorSucceeded,
  WebhookDelivered,
  WebhookRedeliveryRequested,
} from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import { describe, expect, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';
import { invocationDecider, newKeyIds } from '../../src/invocations/decider.ts';
import { specify } from '../aggregates/specification.ts';

const { given } = specify(invocationDecider);
const keyId = '00000000-0000-4000-8000-0000000000c1';
const sealed = `sv1.${keyId}.${'A'.repeat(50)}` as SealedValue;
const identity = {
  invocation_id: '00000000-0000-4000-8000-0000000000d1',
  reactor_id: '00000000-0000-4000-8000-0000000000b1',
};
const data = (mode: 'sync' | 'async') => ({
  ...identity,
  reactor_revision: 0,
  mode,
  args: sealed,
  token_ids: [],
  timeout_ms: 10_000,
  depth: 0,
});
const invoke = { kind: 'invoke', invoked: data('sync') } as const;
const withdraw = { kind: 'withdraw', problem: sealed } as const;
const invoked = fact(ReactorInvoked, data('sync'));
const queued = fact(ReactorInvoked, data('async'));
const withSignature = { ...identity, signature: `m1.1.${'A'.repeat(22)}` };
const signed = fact(ReactorInvocationSigned, withSignature);
const started = fact(ReactorStarted, { ...identity, runner_id: 'r', deadline: '2030-01-01T00:00:10Z' });
const succeeded = fact(ReactorSucceeded, { ...identity, mode: 'async', result: sealed });
const delivered = fact(WebhookDelivered, { ...identity, attempt: 1 });
const failed = fact(ReactorFailed, {
  ...identity,
  mode: 'sync',
  status: 503,
  reason: 'not-started',
  problem: sealed,
  sealed_with_tokens: true,
});

describe('an invocation', () => {
  it('begins once', () => {
    given().when(invoke).then(invoked);
    given(invoked).when(invoke).thenRefused({ code: 'conflict' });
  });

  it('is withdrawn while no runner has started it, also after an upgrade signed it', () => {
    given(invoked).when(withdraw).then(failed);
    given(invoked, signed).when(withdraw).then(failed);
  });

  it('is not withdrawn after its start or its end', () => {
    given(invoked, started).when(withdraw).thenNothing();
    given(invoked, failed).when(withdraw).thenNothing();
  });

  it('is signed before its start or after its end, when it is not signed', () => {
    given(queued).when({ kind: 'sign' }).then(fact(ReactorInvocationSigned, identity));
    given(queued, started, succeeded).when({ kind: 'sign' }).then(fact(ReactorInvocationSigned, identity));
    for (const past of [[], [queued, started], [queued, signed]])
      given(...past)
        .when({ kind: 'sign' })
        .thenNothing();
  });

  it('names the keys of what was sealed for a command', () => {
    expect([invoke, withdraw, { kind: 'sign' } as const].map(newKeyIds)).toEqual([[keyId], [keyId], []]);
  });
});

describe('another delivery of a result', () => {
  it('is wanted after the end of an asynchronous run', () =>
    given(queued, started, succeeded)
      .when({ kind: 'redeliver' })
      .then(fact(WebhookRedeliveryRequested, identity)));

  it.each([
    ['there is no invocation', [], 'not_found'],
    ['the run was synchronous', [invoked, started, succeeded], 'conflict'],
    ['the run is not over', [queued, started], 'conflict'],
    ['the result was delivered', [queued, started, succeeded, delivered], 'conflict'],
  ])('is refused when %s', (_when, past, code) =>
    given(...past)
      .when({ kind: 'redeliver' })
      .thenRefused({ code }),
  );
});

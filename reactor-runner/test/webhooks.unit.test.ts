import { describe, expect, it } from 'vitest';
import { retryAfter } from '../src/webhooks/schedule.ts';
import { signatureHeaders } from '../src/webhooks/signature.ts';

describe('the signature of a webhook', () => {
  it('is the one of the specification of Standard Webhooks', () => {
    // The example of the reference implementations.
    const message = {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      at: new Date(1_614_265_330_000),
      body: '{"test": 2432232314}',
    };
    expect(signatureHeaders(['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], message)).toEqual([
      ['webhook-id', 'msg_p5jXN8AQM9LWM0D4loKWxJek'],
      ['webhook-timestamp', '1614265330'],
      ['webhook-signature', 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='],
    ]);
    const [, , [, both = ''] = []] = signatureHeaders(
      ['whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      message,
    );
    expect(both).toMatch(/^v1,[\w+/]{43}= v1,g0hM9SsE\+OTPJTGt\/tmIKtSyZlE3uFJELVlNIOLJ1OE=$/);
  });
});

describe('the schedule of a webhook', () => {
  it('makes ten retries, the first after two seconds, within two and a half hours', () => {
    const start = new Date(0);
    const waits: number[] = [];
    for (let attempt = 1, now = start; ; attempt += 1) {
      const next = retryAfter(attempt, now);
      if (!next) break;
      waits.push(next.getTime() - now.getTime());
      now = next;
    }
    const total = waits.reduce((sum, wait) => sum + wait, 0);
    expect({ first: waits[0], count: waits.length }).toEqual({ first: 2_000, count: 10 });
    expect(total / 3_600_000).toBeCloseTo(2.5, 1);
    expect(waits).toEqual([...waits].sort((left, right) => left - right));
  });
});

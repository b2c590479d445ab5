import { EventStoreUnavailableError } from '@token-vault/event-store';
import { describe, expect, it, vi } from 'vitest';
import { Deliveries } from '../src/deliveries.ts';
import type { DeliveryOptions, Invocation, InvocationHandler } from '../src/port.ts';

function deliveries(handler: InvocationHandler, options: Partial<DeliveryOptions> = {}): Deliveries {
  return new Deliveries(handler, { onDeadLetter: async () => undefined, retryDelayMs: 1, ...options });
}

const invocation = (invocationId: string, tenantId = 'tenant'): Invocation => ({ tenantId, invocationId });

describe('deliveries', () => {
  it('take tenants in turn: a tenant with many invocations delays another by one of them', async () => {
    const order: string[] = [];
    const subject = deliveries(async ({ invocationId }) => void order.push(invocationId), { concurrency: 1 });
    const many = ['a1', 'a2', 'a3', 'a4'].map((id) => subject.deliver(invocation(id, 'a')));
    const few = ['b1', 'b2'].map((id) => subject.deliver(invocation(id, 'b')));
    await Promise.all([...many, ...few]);
    expect(order).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'a4']);
  });

  it('run at most the set number at once', async () => {
    let [running, most] = [0, 0];
    const subject = deliveries(
      async () => {
        most = Math.max(most, ++running);
        await new Promise(setImmediate);
        running--;
      },
      { concurrency: 3 },
    );
    await Promise.all(Array.from({ length: 20 }, (_, index) => subject.deliver(invocation(`${index}`))));
    expect(most).toBe(3);
  });

  it('do not run an invocation twice at once; both deliveries get its acknowledgement', async () => {
    const gate = Promise.withResolvers<void>();
    const handler = vi.fn(() => gate.promise);
    const subject = deliveries(handler);
    const both = [subject.deliver(invocation('x')), subject.deliver(invocation('x'))];
    gate.resolve();
    expect(await Promise.all(both)).toEqual([true, true]);
    expect(handler).toHaveBeenCalledOnce();
    await subject.deliver(invocation('x'));
    expect(handler).toHaveBeenCalledTimes(2);
  });

  it('repeat a failed invocation, then give it up with the code of the error only', async () => {
    const onDeadLetter = vi.fn(async () => undefined);
    const failure = Object.assign(new Error('secret'), { code: 'boom' });
    const subject = deliveries(() => Promise.reject(failure), { onDeadLetter, maxAttempts: 3 });
    expect(await subject.deliver(invocation('x'))).toBe(true);
    const letter = { invocation: invocation('x'), reason: 'failed', attempts: 3, error: 'boom' };
    expect(onDeadLetter.mock.calls).toEqual([[letter]]);
  });

  it('repeat an unavailable invocation without a limit', async () => {
    let failures = 0;
    const onDeadLetter = vi.fn(async () => undefined);
    const subject = deliveries(
      async () => {
        if (failures++ < 8) throw new EventStoreUnavailableError('for now');
      },
      { onDeadLetter, maxAttempts: 2 },
    );
    expect(await subject.deliver(invocation('x'))).toBe(true);
    expect(onDeadLetter).not.toHaveBeenCalled();
  });

  it('acknowledge an invocation that was given up only once that is recorded', async () => {
    let records = 0;
    const subject = deliveries(() => Promise.reject(new Error()), {
      maxAttempts: 1,
      onDeadLetter: async () => {
        if (++records < 3) throw new Error('not now');
      },
    });
    expect(await subject.deliver(invocation('x'))).toBe(true);
    expect(records).toBe(3);
  });

  it('let running handlers end when they are drained, acknowledge no invocation that has not begun, and start no more', async () => {
    const gate = Promise.withResolvers<void>();
    const handler = vi.fn(() => gate.promise);
    const subject = deliveries(handler, { concurrency: 1 });
    const [running, waiting] = [subject.deliver(invocation('x')), subject.deliver(invocation('y'))];
    const drained = subject.drain(60_000);
    expect(await waiting).toBe(false);
    expect(await subject.deliver(invocation('z'))).toBe(false);
    gate.resolve();
    await drained;
    expect(await running).toBe(true);
    expect(handler).toHaveBeenCalledOnce();
  });

  it('abort the handlers when draining takes too long', async () => {
    const subject = deliveries((_, signal) => {
      return new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(new Error('given up'))),
      );
    });
    const running = subject.deliver(invocation('x'));
    await subject.drain(1);
    expect(await running).toBe(false);
  });
});

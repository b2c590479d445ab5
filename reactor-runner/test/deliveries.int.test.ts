import { fieldsOf } from '@token-vault/test-support';
import { ForbiddenError, UnavailableError, WebhookRedeliveryRequested } from '@token-vault/contracts';
import { KeyDestroyedError } from '@token-vault/crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { EgressError, type EgressFetch, type EgressRequest } from '@token-vault/egress';
import { runnerEvent, type Invocation } from '../src/runs/invocation.ts';
import type { DeliveryRights } from '../src/runs/invoker.ts';
import type { DecisionOnOutputs } from '../src/runs/ports.ts';
import { Deliveries, type DeliveryDependencies } from '../src/webhooks/deliver.ts';
import {
  invoker,
  noLimit,
  nothingSeen,
  tenantId,
  useRunnerFixture,
  type RunnerFixture,
} from './runner-fixture.ts';

const url = 'https://receiver.example/hook';
const answer = (status: number) =>
  Promise.resolve({ status, statusText: '', headers: [], body: new Uint8Array(), url, redirected: false });

let fixture: RunnerFixture;
useRunnerFixture((made) => (fixture = made));
let invocation: Invocation;
let requests: EgressRequest[];
beforeEach(async () => {
  requests = [];
  invocation = await fixture.invoke({}, url);
  await fixture.runner().handle(await fixture.historyOf(invocation));
});

function deliveries(
  respond: (count: number) => ReturnType<EgressFetch>,
  rights: Partial<DeliveryDependencies> = {},
): Deliveries {
  const fetch: EgressFetch = (request) => {
    requests.push(request);
    return respond(requests.length);
  };
  return new Deliveries({
    ...fixture,
    findInvoker: async (ofTenant, actor) => invoker(ofTenant, actor),
    decisionOnUse: async () => () => undefined,
    refuseOwner: async () => undefined,
    decisionOnSeen: nothingSeen,
    fetch,
    ...rights,
  });
}

const attemptsIn = async (): Promise<string[]> =>
  (await fixture.typesOf(invocation)).filter((type) => type.startsWith('Webhook'));

describe('a delivery', () => {
  it('ends with the first 2xx, and nothing of the invocation can be read any more', async () => {
    const outcome = (await fixture.eventsOf(invocation)).at(-1);
    const working = deliveries(() => answer(204));
    await working.deliver(tenantId, invocation.id, noLimit);
    await working.deliver(tenantId, invocation.id, noLimit);
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({ url, method: 'POST', redirect: 'manual' });
    expect(Buffer.from(requests[0]?.body ?? '').toString()).toBe('{}');
    expect(await attemptsIn()).toEqual(['WebhookDelivered']);
    await expect(fixture.open(invocation, 'outcome', fieldsOf(outcome)['result'])).rejects.toThrow(
      KeyDestroyedError,
    );
  });

  it('is not made before it is due, is made eleven times at most, and then given up', async () => {
    const failing = deliveries((count) => {
      if (count === 1) return answer(302);
      if (count === 2) return Promise.reject(new EgressError('timeout', 'The request timed out'));
      return answer(503);
    });
    await failing.deliver(tenantId, invocation.id, noLimit);
    await failing.deliver(tenantId, invocation.id, noLimit);
    expect(requests).toHaveLength(1);
    for (let hour = 0; hour < 12; hour += 1) {
      const next = fieldsOf((await fixture.eventsOf(invocation)).at(-1))['next_at'];
      if (typeof next !== 'string') break;
      fixture.clock.advance(Date.parse(next) - fixture.clock.now().getTime());
      await failing.deliver(tenantId, invocation.id, noLimit);
    }
    expect(requests).toHaveLength(11);
    expect(await attemptsIn()).toEqual([
      ...Array.from({ length: 10 }, () => 'WebhookAttemptFailed'),
      'WebhookGivenUp',
    ]);
    const reasons = (await fixture.eventsOf(invocation)).map((event) => fieldsOf(event)['reason']);
    expect(reasons).toEqual(expect.arrayContaining(['status 302', 'timeout', 'status 503']));
    fixture.clock.advance(24 * 3_600_000);
    await failing.deliver(tenantId, invocation.id, noLimit);
    expect(requests).toHaveLength(11);
  });

  it('can be requested again when it was given up: with its result, and as many attempts as at first', async () => {
    let status = 503;
    const receiver = deliveries(() => answer(status));
    const giveUp = async () => {
      for (let next: unknown; ;) {
        await receiver.deliver(tenantId, invocation.id, noLimit);
        next = fieldsOf((await fixture.eventsOf(invocation)).at(-1))['next_at'];
        if (typeof next !== 'string') return;
        fixture.clock.advance(Date.parse(next) - fixture.clock.now().getTime());
      }
    };
    const askAgain = async () => {
      const { reactor_id } = invocation.invoked;
      const data = { invocation_id: invocation.id, reactor_id };
      const event = runnerEvent(invocation, WebhookRedeliveryRequested, data, fixture.clock.now());
      await fixture.store.append(invocation.stream, [event], (await fixture.historyOf(invocation)).revision);
    };
    await giveUp();
    await askAgain();
    await receiver.deliver(tenantId, invocation.id, noLimit);
    await askAgain();
    status = 204;
    await receiver.deliver(tenantId, invocation.id, noLimit);
    expect((await attemptsIn()).slice(10)).toEqual([
      'WebhookGivenUp',
      'WebhookRedeliveryRequested',
      'WebhookAttemptFailed',
      'WebhookRedeliveryRequested',
      'WebhookDelivered',
    ]);
    expect(Buffer.from(requests.at(-1)?.body ?? '').toString()).toBe('{}');
    const numbers = (await fixture.eventsOf(invocation)).flatMap((event) => fieldsOf(event)['attempt'] ?? []);
    expect(numbers).toEqual(Array.from({ length: 13 }, (_, index) => index + 1));
  });

  it('of a custom response sends its text unchanged, with its type', async () => {
    const custom = { headers: { 'Content-Type': 'text/csv', 'X-Other': '1' }, body: 'a,b\n' };
    const console = { lines: [], truncated: false };
    fixture.sandbox = () =>
      Promise.resolve({
        kind: 'failed',
        console,
        status: 200,
        detail: 'Custom HTTP Response',
        errors: {},
        custom,
      });
    const own = await fixture.invoke({}, url);
    await fixture.runner().handle(await fixture.historyOf(own));
    await deliveries(() => answer(200)).deliver(tenantId, own.id, noLimit);
    expect(Buffer.from(requests[0]?.body ?? '').toString()).toBe('a,b\n');
    const headers = new Map(requests[0]?.headers);
    expect([headers.get('content-type'), headers.get('X-Other')]).toEqual(['text/csv', undefined]);
  });

  const shown = {
    kind: 'succeeded',
    result: { raw: 'SECRET' },
    console: { lines: [], truncated: false },
  } as const;
  const card = { type: 'card', id: 'tok' } as const;

  /** The invoker loses its rights while the delivery reads the tokens that the code was shown. */
  function lostWhileReading(): Partial<DeliveryRights> {
    let isThere = true;
    return {
      findInvoker: async (ofTenant, actor) => (isThere ? invoker(ofTenant, actor) : undefined),
      decisionOnSeen(...asked) {
        isThere = false;
        return nothingSeen(...asked);
      },
    };
  }

  it.each<[string, Partial<DeliveryRights>, object]>([
    ['is no more', { findInvoker: async () => undefined }, { entity_type: 'reactor' }],
    [
      'may use no token any more',
      { findInvoker: async (...of) => ({ ...invoker(of[0], of[1]), permissions: ['token:read'] }) },
      { entity_type: 'reactor' },
    ],
    [
      'may not use a token of the arguments any more',
      { decisionOnUse: async () => () => new ForbiddenError('not this one', card) },
      { entity_type: 'card', entity_id: 'tok' },
    ],
    ['is no more once its tokens were read', lostWhileReading(), { entity_type: 'reactor' }],
  ])('sends a refusal when the invoker %s, and has it on record', async (_case, rights, entity) => {
    fixture.sandbox = () => Promise.resolve(shown);
    invocation = await fixture.invoke({}, url);
    await fixture.runner().handle(await fixture.historyOf(invocation));
    await deliveries(() => answer(500)).deliver(tenantId, invocation.id, noLimit);
    fixture.clock.advance(60_000);
    await deliveries(() => answer(204), rights).deliver(tenantId, invocation.id, noLimit);
    const [first, second] = requests.map(({ body }) => Buffer.from(body ?? '').toString());
    expect(first).toBe('{"raw":"SECRET"}');
    expect(JSON.parse(second ?? '')).toMatchObject({ status: 403, detail: 'Forbidden' });
    expect(second).not.toContain('SECRET');
    expect((await fixture.eventsOf(invocation)).slice(-3)).toMatchObject([
      { type: 'WebhookAttemptFailed' },
      { type: 'AccessDenied', data: { ...entity, permission: 'token:use', operation: 'react' } },
      { type: 'WebhookDelivered' },
    ]);
  });

  it('that is refused has the application on record that lost a right to what the code was shown', async () => {
    const lacking = { actor: { kind: 'application', id: 'reader' }, permission: 'token:read' } as const;
    const refusal = new ForbiddenError('not any more', card, lacking);
    const decisionOnSeen = async () => async () => ({ refusal, record: () => Promise.resolve() });
    await deliveries(() => answer(204), { decisionOnSeen }).deliver(tenantId, invocation.id, noLimit);
    expect((await fixture.eventsOf(invocation)).slice(-2)).toMatchObject([
      {
        type: 'AccessDenied',
        data: { entity_type: 'card', entity_id: 'tok', permission: 'token:read', operation: 'react' },
        metadata: { actor: lacking.actor },
      },
      { type: 'WebhookDelivered' },
    ]);
  });

  /** Sends nothing unless it is still permitted when the connection is there. `sent` gets the bodies. */
  const permitting =
    (sent: string[]): EgressFetch =>
    async ({ permit, body }) => {
      await permit?.();
      sent.push(Buffer.from(body ?? '').toString());
      return answer(204);
    };

  /** Tokens of an output. Each decision may show them in another way. */
  const outputs =
    (shownOf: (decision: number, isWithheld: (index: number) => boolean) => readonly string[]) =>
    (decision = 0): DecisionOnOutputs =>
    async () =>
    (_present, isWithheld) => {
      const shown = shownOf((decision += 1), isWithheld).map((each, at) => (isWithheld(at) ? 'id' : each));
      return { shown, value: async () => [...shown], record: async () => undefined };
    };

  it.each([
    ['as they are then', outputs((decision) => [decision === 1 ? 'more' : 'less', 'b']), ['less', 'b']],
    [
      'by their identity, if they change each time',
      outputs((decision) => [`a${decision}`, 'b']),
      ['id', 'b'],
    ],
    [
      'all by their identity, if others change when these do not matter any more',
      outputs((decision, isWithheld) => [`a${decision}`, isWithheld(0) ? `b${decision}` : 'b', 'c']),
      ['id', 'id', 'id'],
    ],
  ])('shows tokens of the output that change while the connection is made %s', async (_how, made, body) => {
    const sent: string[] = [];
    const rights = { decisionOnOutputs: made(), fetch: permitting(sent) };
    await deliveries(() => answer(204), rights).deliver(tenantId, invocation.id, noLimit);
    expect(sent).toEqual([JSON.stringify(body)]);
    expect(await attemptsIn()).toEqual(['WebhookDelivered']);
  });

  it('shows nothing to an invoker that loses its rights while the tokens of the output change', async () => {
    const sent: string[] = [];
    let decisions = 0;
    const rights: Partial<DeliveryDependencies> = {
      decisionOnOutputs: outputs(() => [`SECRET${(decisions += 1)}`, 'SECRET'])(),
      findInvoker: async (...of) => (decisions < 5 ? invoker(of[0], of[1]) : undefined),
      fetch: permitting(sent),
    };
    await deliveries(() => answer(204), rights).deliver(tenantId, invocation.id, noLimit);
    expect(sent.map((each) => JSON.parse(each) as object)).toMatchObject([{ status: 403 }]);
    expect(sent.join()).not.toContain('SECRET');
  });

  it('is not made while the rights of the invoker are unknown', async () => {
    const findInvoker = () => Promise.reject(new UnavailableError('applications stand still'));
    const unknowing = deliveries(() => answer(204), { findInvoker });
    await expect(unknowing.deliver(tenantId, invocation.id, noLimit)).rejects.toThrow(UnavailableError);
    expect(requests).toEqual([]);
    expect(await attemptsIn()).toEqual([]);
  });

  it('by two replicas at once is recorded once', async () => {
    const both = deliveries(() => answer(200));
    await Promise.all([
      both.deliver(tenantId, invocation.id, noLimit),
      both.deliver(tenantId, invocation.id, noLimit),
    ]);
    expect(await attemptsIn()).toEqual(['WebhookDelivered']);
  });
});

import type { Principal } from '@token-vault/access';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { asRightsAreNow, type Answer } from '../src/index.ts';
import type { RequestContext } from '../src/request-context.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => vi.useRealTimers());

const principalWith = (permissions: Principal['permissions']): Principal => ({
  tenant: { id: 'tenant', plan: 'standard', settings: {} },
  actor: { kind: 'application', id: 'app' },
  applicationId: 'app',
  applicationType: 'private',
  permissions,
  rules: [],
});

/** An answer that took long, and that is looked at for so long. The caller's rights are narrowed meanwhile. */
async function answerAfterLooking(lookingMs: number) {
  let present = principalWith(['token:use']);
  const madeFor: Principal['permissions'][] = [];
  const answer: Answer = { body: 'first' };
  const made = {
    answer,
    admitted: { principal: present, atMs: performance.now() },
    async decideAnew({ permissions }: Principal) {
      madeFor.push(permissions);
      return { body: 'anew' };
    },
    async isOvertaken() {
      vi.advanceTimersByTime(lookingMs);
      present = principalWith([]);
      return false;
    },
  };
  vi.advanceTimersByTime(1_000);
  const caller = {
    principalNow: async () => present,
    contextOf: () => ({ now: new Date() }) as RequestContext,
  };
  const { body } = await asRightsAreNow(made, caller);
  return { body, madeFor };
}

it('an answer is made again when the rights are narrowed while its tokens are looked at for long', async () => {
  expect(await answerAfterLooking(300)).toEqual({ body: 'anew', madeFor: [[]] });
});

it('rights that were found a moment before the answer leaves are not looked up again', async () => {
  expect(await answerAfterLooking(20)).toEqual({ body: 'first', madeFor: [] });
});

/** An answer that took long, and whose tokens are looked at for so long. The caller's rights are narrowed meanwhile. */
async function answerAfterRenewing(renewingMs: number) {
  let present = principalWith(['token:read']);
  const madeFor: Principal['permissions'][] = [];
  const answerOf = (body: string): Answer => ({
    pending: {
      async renew() {
        vi.advanceTimersByTime(renewingMs);
        present = principalWith([]);
        return false;
      },
      record: async () => undefined,
      answer: () => ({ body }),
    },
  });
  const made = {
    answer: answerOf('first'),
    admitted: { principal: present, atMs: performance.now() },
    async decideAnew({ permissions }: Principal) {
      madeFor.push(permissions);
      return answerOf('anew');
    },
  };
  vi.advanceTimersByTime(1_000);
  const caller = {
    principalNow: async () => present,
    contextOf: () => ({ now: new Date() }) as RequestContext,
  };
  const { body } = await asRightsAreNow(made, caller);
  return { body, madeFor };
}

it('an answer is made again when the rights are narrowed while the database is waited for, which is asked for changes of its tokens', async () => {
  expect(await answerAfterRenewing(300)).toEqual({ body: 'anew', madeFor: [[]] });
});

it('an answer whose tokens were looked at for a moment leaves', async () => {
  expect(await answerAfterRenewing(20)).toEqual({ body: 'first', madeFor: [] });
});

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

type Narrow = () => void;

/**
 * An answer that took long. The caller's rights are narrowed when `narrow` is called.
 * @param answerOf the answer with this body
 * @param isOvertaken the look at the tokens of the answer
 */
async function lateAnswer(
  answerOf: (body: string, narrow: Narrow) => Answer,
  isOvertaken?: (narrow: Narrow) => boolean,
) {
  let present = principalWith(['token:use']);
  const narrow = () => void (present = principalWith([]));
  const madeFor: Principal['permissions'][] = [];
  const made = {
    answer: answerOf('first', narrow),
    admitted: { principal: present, atMs: performance.now() },
    async decideAnew({ permissions }: Principal) {
      madeFor.push(permissions);
      return answerOf('anew', narrow);
    },
    isOvertaken: () => isOvertaken?.(narrow) ?? false,
  };
  vi.advanceTimersByTime(1_000);
  const caller = {
    principalNow: async () => present,
    contextOf: () => ({ now: new Date() }) as RequestContext,
  };
  const { body } = await asRightsAreNow(made, caller);
  return { body, madeFor };
}

/** The rights are narrowed while its tokens are looked at for so long. */
const answerAfterLooking = (lookingMs: number) =>
  lateAnswer(
    (body) => ({ body }),
    (narrow) => {
      vi.advanceTimersByTime(lookingMs);
      narrow();
      return false;
    },
  );

/** The rights are narrowed while a query for changes of its tokens runs for this time. */
const answerAfterRenewing = (renewingMs: number) =>
  lateAnswer((body, narrow) => ({
    pending: {
      async renew() {
        vi.advanceTimersByTime(renewingMs);
        narrow();
        return false;
      },
      record: async () => undefined,
      answer: () => ({ body }),
    },
  }));

it('an answer is made again when the rights are narrowed while its tokens are looked at for long', async () => {
  expect(await answerAfterLooking(300)).toEqual({ body: 'anew', madeFor: [[]] });
});

it('rights that were found a moment before the answer leaves are not looked up again', async () => {
  expect(await answerAfterLooking(20)).toEqual({ body: 'first', madeFor: [] });
});

it('an answer is made again when the rights are narrowed during a long query for changes of its tokens', async () => {
  expect(await answerAfterRenewing(300)).toEqual({ body: 'anew', madeFor: [[]] });
});

it('an answer whose tokens were looked at for a moment leaves', async () => {
  expect(await answerAfterRenewing(20)).toEqual({ body: 'first', madeFor: [] });
});

it('an answer leaves though every decision takes longer than rights count at first', async () => {
  const answer = await lateAnswer(
    (body) => ({ body }),
    () => {
      vi.advanceTimersByTime(300);
      return true;
    },
  );
  expect(answer.madeFor.length).toBeGreaterThan(1);
  expect(answer.body).toBe('anew');
});

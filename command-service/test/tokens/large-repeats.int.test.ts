import { threadShares, type Turn } from '@token-vault/batching';
import type { Token } from '@token-vault/contracts';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { createAuditTrail, createRequestContext, type StoredToken } from '@token-vault/operations';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, expect, it, vi, type MockInstance } from 'vitest';
import { createTokenReplay } from '../../src/index.ts';
import { repeatTurns } from '../../src/tokens/large-tokens.ts';
import { anyone, noActor, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const data = 'q'.repeat(500_000);
let made: Token;
let opening: MockInstance<TestVault['keyRing']['open']>;
let most: number;
let now: number;

beforeEach(async () => {
  made = await vault.create({ type: 'token', id: 'tok', data, mask: '{{ data | last4 }}' });
  [most, now] = [0, 0];
  const open = vault.keyRing.open.bind(vault.keyRing);
  opening = vi.spyOn(vault.keyRing, 'open').mockImplementation(async (...args) => {
    now += 1;
    most = Math.max(most, now);
    return open(...args).finally(() => (now -= 1));
  });
});
afterEach(() => vi.restoreAllMocks());

const entry = (by: StoredToken['by'], { id, created_at = '' }: Token = made): StoredToken => ({
  id,
  createdAt: created_at,
  at: [],
  by,
});

interface Repeat {
  /** Counts the waits without the place of the request. */
  readonly onWait?: () => void;
  readonly principalNow?: () => Promise<TestVault['principal']>;
}

async function repeat(tokens: readonly StoredToken[], { onWait, principalNow }: Repeat = {}) {
  const { log: store, keyRing, clock, principal } = vault;
  const expressions = createExpressions(createInlineWorkers());
  const audit = createAuditTrail(store);
  const replay = createTokenReplay({ store, keyRing, clock, expressions, audit, findActor: noActor });
  const context = createRequestContext({
    principal,
    traceId: 'again',
    now: clock.now(),
    principalNow,
    outOfTurn: (wait) => (onWait?.(), wait()),
  });
  const present = async () => (await context.renewed()) ?? context;
  return replay.show(tokens, context, { present, isOnRecord: false });
}

const readings = async () => (await vault.events()).filter(({ type }) => type === 'TokensRead');

describe('repeats that show a large token', () => {
  it.each(['create', 'update', 'output', 'duplicate-of-create', 'duplicate-of-update'] as const)(
    'open few at a time, and wait without their place (%s)',
    async (by) => {
      let waits = 0;
      const onWait = () => (waits += 1);
      const shown = await Promise.all(Array.from({ length: 8 }, () => repeat([entry(by)], { onWait })));
      const told = by === 'output' ? 'qqqq' : data;
      expect(shown.every(([each]) => each?.token?.data === told)).toBe(true);
      expect(most).toBeLessThanOrEqual(2);
      expect(waits).toBeGreaterThanOrEqual(6);
      expect(await readings()).toHaveLength(8);
    },
  );

  it('end their turn with the answer, and with an error', async () => {
    const take = vi.spyOn(repeatTurns, 'take');
    await repeat([entry('create')]);
    opening.mockRejectedValueOnce(new Error('failed'));
    await expect(repeat([entry('create')])).rejects.toThrow('failed');
    expect(take).toHaveBeenCalledTimes(2);
    await Promise.all(take.mock.calls.map(([{ over }]) => over));
  });

  it('do not wait where the answer does not show it, nor where it is small', async () => {
    const { at: _at, ...named } = entry('create');
    const small = await vault.create({ type: 'token', data: 'q' });
    const onWait = vi.fn();
    const tokens = Array.from({ length: 8 }, () => [[named], [entry('create', small)]]).flat();
    await Promise.all(tokens.map((each) => repeat(each, { onWait })));
    expect(onWait).not.toHaveBeenCalled();
  });
});

describe('a repeat that has waited for its turn', () => {
  /** Starts a repeat that waits, and gives what begins its turn. */
  async function startWaiting(options: Repeat = {}) {
    const { promise: turn, resolve: begin } = Promise.withResolvers<Turn>();
    const begins = vi.spyOn(threadShares, 'begin').mockReturnValueOnce(turn);
    const waiting = repeat([entry('create')], options);
    await waitUntil(() => begins.mock.calls.length > 0);
    const none: Turn = { isOver: false, next: () => Promise.resolve(), end: () => undefined };
    return { waiting, begin: () => begin(none) };
  }

  it('shows the token as it is then, and has one record', async () => {
    const { waiting, begin } = await startWaiting();
    expect(most).toBe(0);
    await vault.update('tok', { metadata: { a: 'b' } });
    const before = (await readings()).length;
    begin();
    expect(await waiting).toMatchObject([{ token: { metadata: { a: 'b' } } }]);
    expect((await readings()).length).toBe(before + 1);
  });

  it('is decided by the rights of its caller as they are then', async () => {
    let rights = vault.principal;
    const { waiting, begin } = await startWaiting({ principalNow: () => Promise.resolve(rights) });
    const refused = expect(waiting).rejects.toMatchObject({ code: 'forbidden' });
    rights = anyone({ tenant: vault.principal.tenant, rules: [] });
    begin();
    await refused;
  });
});

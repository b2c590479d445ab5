import { randomUUID } from 'node:crypto';
import {
  invocationPlace,
  operations,
  streams,
  type JsonInput,
  type SeenToken,
  type Token,
} from '@token-vault/contracts';
import { secret } from '@token-vault/crypto';
import { startPosition, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { createAuditTrail, createRepeating, createRequestContext } from '@token-vault/operations';
import { beforeEach, describe, expect, it } from 'vitest';
import { createOwnerDecision, createTokenReplay, createTokenUse } from '../../src/index.ts';
import { answerNow } from '../../src/invocations/answers.ts';
import type { OutcomeEvent } from '../../src/invocations/state.ts';
import { createSeenTokens } from '../../src/tokens/seen.ts';
import { anyone, noActor, useVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

let early: Token;
let late: Token;
beforeEach(async () => {
  const create = (id: string) => vault.create({ id, type: 'token', data: 'SECRET', containers: ['/mine/'] });
  [early, late] = [await create('early'), await create('late')];
});

/**
 * The log. Another caller does something to the first token while the second one is read, which comes after the first.
 * @param reading of the second token: 1 for the first time that it is read
 */
function storeWith(withdraw: (() => Promise<unknown>) | undefined, reading = 1): EventStore {
  const { log, principal } = vault;
  let readings = 0;
  return {
    ...log,
    async *readStream(stream, options) {
      if (stream === streams.token(principal.tenant.id, 'late')) {
        readings += 1;
        if (readings === reading) await withdraw?.();
      }
      yield* log.readStream(stream, options);
    },
  };
}

const replayOf = (store: EventStore) => {
  const { keyRing, clock } = vault;
  const expressions = createExpressions(createInlineWorkers());
  return createTokenReplay({
    store,
    keyRing,
    clock,
    expressions,
    audit: createAuditTrail(store),
    findActor: noActor,
  });
};

const contextOf = () =>
  createRequestContext({ principal: onlyMine(), traceId: 'again', now: vault.clock.now() });

/** The use of both tokens, as an answer names it. */
const bothUsed = () =>
  [early, late].map(({ id, created_at: createdAt = '' }) => ({ id, createdAt, by: 'use' as const }));

/** An answer that shows both tokens whole. */
const bothShown = () => bothUsed().map((token, index) => ({ ...token, at: ['tokens', index] }));

const repeatingOf = (store: EventStore) =>
  createRepeating(
    { audit: createAuditTrail(store), tokenReplay: replayOf(store), isVisible: async () => true },
    operations.tokenize,
    undefined,
    contextOf(),
  );

const withdrawals = {
  nothing: undefined,
  'moved away': () => vault.update('early', { containers: ['/theirs/'] }),
  'moved away, and deleted': async () => {
    await vault.update('early', { containers: ['/theirs/'] });
    await vault.remove('early');
  },
};

const onlyMine = () => {
  const { tenant } = vault.principal;
  return anyone({ tenant, rules: anyone().rules.map((rule) => ({ ...rule, container: '/mine/' })) });
};

const findingsOf = <Value>(showing: Promise<Value>) =>
  showing.then(
    () => 'shown',
    (error: unknown) => (error as { code?: string }).code,
  );

interface RunOf {
  readonly usedTokenIds: readonly string[];
  /** The tokens that its code was shown. */
  readonly seen?: readonly SeenToken[];
  /** Whether the caller was authenticated a moment before the answer. */
  readonly isAdmittedNow?: boolean;
  readonly admittedAtMs?: number;
}

/** Answers a run, by rights for the container `/mine/` alone. */
async function answer(
  store: EventStore,
  { usedTokenIds, seen = [], isAdmittedNow = false, ...admission }: RunOf,
) {
  const { keyRing, clock } = vault;
  const principal = onlyMine();
  const [invocationId, reactorId] = [randomUUID(), randomUUID()];
  const tenantId = principal.tenant.id;
  const now = clock.now();
  const principalNow = async () => (isAdmittedNow ? undefined : principal);
  const context = createRequestContext({ principal, traceId: 'run', now, principalNow, ...admission });
  const content = { type: 'ReactorSucceeded', value: { raw: 'SECRET' }, seen, isSeenComplete: true };
  const place = invocationPlace(tenantId, invocationId, 'outcome_with_tokens');
  const sealed = secret(content as unknown as JsonInput);
  const result = await keyRing.sealNew(place, sealed, { destroyAfter: new Date(now.getTime() + 60_000) });
  const run = { invocation_id: invocationId, reactor_id: reactorId, mode: 'sync' };
  const outcome = {
    type: 'ReactorSucceeded',
    id: randomUUID(),
    data: { ...run, result, sealed_with_tokens: true },
    metadata: context.metadata,
    position: startPosition,
  } as unknown as OutcomeEvent;
  const audit = createAuditTrail(store);
  const dependencies = {
    store,
    keyRing,
    tokenUse: createTokenUse({ store, keyRing, clock }),
    decisionOnSeen: createSeenTokens({ store, keyRing, clock, audit, findActor: async () => principal }),
    refuseOwner: createOwnerDecision({ store, keyRing, clock }),
  };
  const asked = { tenantId, invocationId, reactorId, reactorRevision: 0 };
  return answerNow(dependencies, { asked, outcome, usedTokenIds, since: now, isFirst: true }, context);
}

describe.each(Object.entries(withdrawals))(
  '%s: a token, when it was read and others were not',
  (name, withdraw) => {
    const expected = name === 'nothing' ? 'shown' : 'forbidden';

    it(`the answer of a run that used both is ${expected}`, async () => {
      const answered = answer(storeWith(withdraw), { usedTokenIds: ['early', 'late'] });
      expect(await findingsOf(answered)).toBe(expected);
    });

    it(`the answer of a run that used it, and whose code was shown the others, is ${expected} also when its caller was authenticated a moment ago`, async () => {
      const shown = { applicationId: 'app', permission: 'token:read', transform: 'reveal' } as const;
      const seen = [{ id: 'late', createdAt: late.created_at, shown }];
      const answered = answer(storeWith(withdraw), { usedTokenIds: ['early'], seen, isAdmittedNow: true });
      expect(await findingsOf(answered)).toBe(expected);
    });

    it(`a repeat that shows both is ${expected}`, async () => {
      const context = contextOf();
      const later = { present: async () => context, isOnRecord: false };
      const found = await findingsOf(replayOf(storeWith(withdraw)).show(bothUsed(), context, later));
      expect(found).toBe(name === 'moved away, and deleted' ? 'not_found' : expected);
    });

    it(`a look at an answer that took long ${name === 'nothing' ? 'leaves it' : 'finds the change'}`, async () => {
      const answer = { body: { tokens: [early, late] }, tokens: bothShown() };
      const isOvertaken = await repeatingOf(storeWith(withdraw)).isOvertaken(answer);
      expect(isOvertaken).toBe(name !== 'nothing');
    });
  },
);

it('the answer of a run is shown though another caller updates its token each time that it is read', async () => {
  const { log, principal } = vault;
  let updates = 0;
  const store: EventStore = {
    ...log,
    async *readStream(stream, options) {
      const read: RecordedEvent[] = [];
      for await (const event of log.readStream(stream, options)) read.push(event);
      if (stream === streams.token(principal.tenant.id, 'early')) {
        updates += 1;
        await vault.update('early', { metadata: { count: String(updates) } });
      }
      yield* read;
    },
  };
  expect(await findingsOf(answer(store, { usedTokenIds: ['early', 'late'] }))).toBe('shown');
  expect(updates).toBeGreaterThan(2);
});

it('a look at a repeated answer that took long reads each token once, so no change comes between two readings', async () => {
  const answer = { body: { tokens: [undefined, undefined] } };
  let isChanged = false;
  const change = async () => {
    isChanged = true;
    await vault.update('early', { metadata: { count: '1' } });
  };
  const again = await repeatingOf(storeWith(change, 3)).show(answer, bothShown());
  expect(await again.decided?.isOvertaken(contextOf(), again)).toBe(isChanged);
});

it('a repeat reads only the token again that another caller updates each time that it is read', async () => {
  const { log, principal } = vault;
  const reads = { early: 0, late: 0 };
  const store: EventStore = {
    ...log,
    async *readStream(stream, options) {
      const read: RecordedEvent[] = [];
      for await (const event of log.readStream(stream, options)) read.push(event);
      if (stream === streams.token(principal.tenant.id, 'late')) reads.late += 1;
      if (stream === streams.token(principal.tenant.id, 'early')) {
        reads.early += 1;
        await vault.update('early', { metadata: { count: String(reads.early) } });
      }
      yield* read;
    },
  };
  const context = contextOf();
  const later = { present: async () => context, isOnRecord: true };
  expect(await findingsOf(replayOf(store).show(bothUsed(), context, later))).toBe('shown');
  expect(reads.early).toBeGreaterThan(2);
  expect(reads.late).toBe(1);
});

it('the rights of an answer count from the authentication of its caller, not from the end of the run', async () => {
  const admittedAtMs = performance.now() - 90;
  const { decided } = await answer(vault.log, { usedTokenIds: ['early'], isAdmittedNow: true, admittedAtMs });
  expect(decided?.atMs).toBe(admittedAtMs);
  const renewed = await answer(vault.log, { usedTokenIds: ['early'], admittedAtMs });
  expect(renewed.decided?.atMs).toBeGreaterThan(admittedAtMs + 90);
});

describe('a token that expires while others are read', () => {
  /** The first token expires while the second one is read. */
  const storeAtExpiry = () =>
    storeWith(async () => vault.clock.set(new Date(vault.clock.now().getTime() + 120_000).toISOString()));
  beforeEach(async () => {
    const expires_at = new Date(vault.clock.now().getTime() + 60_000).toISOString();
    early = await vault.update('early', { expires_at });
  });

  it('is absent for a repeat', async () => {
    const context = contextOf();
    const later = { present: async () => context, isOnRecord: false };
    expect(await findingsOf(replayOf(storeAtExpiry()).show(bothUsed(), context, later))).toBe('not_found');
  });

  it('is found by a look at an answer that took long', async () => {
    const answer = { body: { tokens: [early, late] }, tokens: bothShown() };
    expect(await repeatingOf(storeAtExpiry()).isOvertaken(answer)).toBe(true);
  });

  it('is absent for a request of a proxy, and for its code', async () => {
    const { keyRing, clock } = vault;
    const context = contextOf();
    const shown = { applicationId: 'app', permission: 'token:read', transform: 'reveal' } as const;
    const seen = bothUsed().map(({ id, createdAt }) => ({ id, createdAt, shown }));
    const tokenUse = createTokenUse({ store: storeAtExpiry(), keyRing, clock });
    expect(await tokenUse.areThere(seen, context.now, context)).toBe(false);
  });
});

it.each([
  ['mask', { mask: '***' }],
  ['metadata', { metadata: { count: '1' } }],
])(
  'a look finds another %s also when the change has the same time as the one before',
  async (_field, change) => {
    const shown = await vault.update('early', { metadata: {} });
    const changed = await vault.update('early', change);
    expect(changed.modified_at).toBe(shown.modified_at);
    const replay = replayOf(vault.log);
    expect(await replay.areAsShown([shown], contextOf())).toBe(false);
    expect(await replay.areAsShown([changed, late], contextOf())).toBe(true);
  },
);

it('a look finds that a token is gone of which the answer holds only the names', async () => {
  const replay = replayOf(vault.log);
  const { id, tenant_id, type, containers } = early;
  const names = { id, tenant_id, type, containers } as Token;
  expect(await replay.areAsShown([names], contextOf())).toBe(true);
  await vault.remove('early');
  expect(await replay.areAsShown([names], contextOf())).toBe(false);
});

it('a look finds a token unchanged of which each field is set, and one that its caller may not read', async () => {
  const replay = replayOf(vault.log);
  const expires_at = new Date(vault.clock.now().getTime() + 60_000).toISOString();
  const all = {
    mask: '{{ data | reveal_last: 2 }}',
    metadata: { some: 'text' },
    search_indexes: ['{{ data }}'],
    fingerprint_expression: '{{ data }}',
    containers: ['/mine/'],
    expires_at,
  };
  const created = await vault.create({ id: 'whole', type: 'token', data: 'WHOLE', ...all });
  const updated = await vault.update('early', { data: 'OTHER', ...all });
  expect(await replay.areAsShown([created, updated], contextOf())).toBe(true);
  const { mask: _mask, metadata: _metadata, search_indexes: _indexes, data: _data, ...hidden } = updated;
  const { fingerprint_expression: _expression, fingerprint: _fingerprint, ...visible } = hidden;
  expect(await replay.areAsShown([visible as Token], contextOf())).toBe(true);
  await vault.update('early', { containers: ['/theirs/'] });
  expect(await replay.areAsShown([visible as Token], contextOf())).toBe(false);
});

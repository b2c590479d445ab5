import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { streams } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createSeenTokens } from '../../src/tokens/seen.ts';
import { anyone, openVault, type TestVault } from './vault.ts';

let vault: TestVault;
beforeAll(async () => {
  vault = await openVault();
  await vault.newTenant();
});
afterAll(() => vault.close());

it('a run that asked for another is decided by the rights after the stream of the other reactor was read', async () => {
  const { log, keyRing, clock, principal } = vault;
  const reactorId = randomUUID();
  let isNarrowed = false;
  const store: EventStore = {
    ...log,
    append: (...given) => log.append(...given),
    async *readStream(stream, options) {
      if (stream === streams.reactor(principal.tenant.id, reactorId)) isNarrowed = true;
      yield* log.readStream(stream, options);
    },
  };
  const application = (): Principal => ({
    ...anyone({ tenant: principal.tenant }),
    permissions: isNarrowed ? [] : ['token:use'],
    rules: [],
  });
  const decisionOnSeen = createSeenTokens({
    store,
    keyRing,
    clock,
    audit: createAuditTrail(store),
    findActor: async () => application(),
  });
  const now = clock.now();
  const context = createRequestContext({ principal, traceId: 'trace', now });
  const ran = { applicationId: 'app', permission: 'token:use', transform: 'reveal', ran: 0 } as const;
  const decide = await decisionOnSeen([{ id: reactorId, shown: ran }], now, context);
  expect((await decide()).refusal?.message).toContain('may no longer ask');
});

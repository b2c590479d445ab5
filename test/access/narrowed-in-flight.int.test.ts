import { secret } from '@token-vault/contracts';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { must, newCaller } from './cast.ts';
import { direct, tell, type Asked } from './entrances.ts';
import { bodyTookMs, hidden, masking, useInFlight } from './in-flight.ts';
import { everything } from './rights.ts';

const vault = useInFlight();

const search = (): Asked => ({ operation: 'searchTokens', body: { query: 'type:card' } });
/** Each one is a change: a patch that changes nothing waits for no read model. */
const patch = (): Asked => ({
  operation: 'updateToken',
  params: { id: 'live' },
  body: { metadata: { k: randomUUID() } },
});
const asks: Readonly<Record<string, () => Asked>> = {
  'a search': search,
  'a patch of the mask': () => ({
    operation: 'updateToken',
    params: { id: 'live' },
    body: { mask: '{{ data }}' },
  }),
  'a patch': patch,
};

/** The answers to a caller whose rights change while its body is being sent. */
async function tellWhile(asked: Asked, change: (id: string) => Asked) {
  const caller = await newCaller(vault.twins, vault.cast.manager, { type: 'private', ...everything });
  return tell(vault.twins, caller, asked, {
    async readBody() {
      await must(vault.twins, vault.cast.manager, change(caller.id));
      await delay(bodyTookMs);
      return secret(asked.body);
    },
  });
}

/** The answer to `asked` while the read model of tokens is locked and the caller's rights change. */
async function tellAcross(asked: Asked, change: (id: string) => Asked) {
  const caller = await newCaller(vault.twins, vault.cast.manager, { type: 'private', ...everything });
  const lock = await vault.lockTokens();
  const telling = tell(vault.twins, caller, asked);
  await lock.isAwaited();
  // The lock also delays the read models, so this answer does not wait for them.
  await tell(vault.twins, vault.cast.manager, change(caller.id), { isAsync: true });
  await delay(bodyTookMs);
  await lock.release();
  return telling;
}

/** The answers equal those to a caller that has had the new rights from the start. */
async function expectPresentRights(tellWhileChanged: typeof tellWhile, ask: () => Asked): Promise<void> {
  const narrowed = await tellWhileChanged(ask(), (id) => ({
    operation: 'updateApplication',
    params: { id },
    body: { name: 'caller', ...masking },
  }));
  const [before] = await direct.ask(vault.twins, vault.cast.caller(0), ask());
  expect(narrowed.status).toBe(before?.status);
  expect(JSON.stringify(narrowed.body)).not.toContain(hidden.number);
  const deleted = await tellWhileChanged(ask(), (id) => ({ operation: 'deleteApplication', params: { id } }));
  expect(deleted.status).toBe(401);
}

describe('a caller whose rights change while the vault answers', () => {
  const takingLong: Readonly<Record<string, () => Asked>> = {
    'a search that waits for its rows': search,
    'a list that waits for its rows': () => ({ operation: 'listTokens' }),
    'a patch that waits for the read models': patch,
  };
  it.each(Object.entries(takingLong))('%s is shown what it may see at that moment', async (_name, ask) => {
    await expectPresentRights(tellAcross, ask);
  });
});

describe('a caller whose rights change while it sends the body of', () => {
  it.each(Object.entries(asks))('%s is shown what it may see at that moment', async (_name, ask) => {
    await expectPresentRights(tellWhile, ask);
  });
});

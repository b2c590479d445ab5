import { setTimeout as delay } from 'node:timers/promises';
import type { Json } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
import { describe, expect, it } from 'vitest';
import { must, newCaller, type Role } from './cast.ts';
import { tell, type Asked } from './entrances.ts';
import { bodyTookMs, useInFlight } from './in-flight.ts';
import { everything, rule, type Rights } from './rights.ts';

const vault = useInFlight();

/** Sees all of `/a/`, and nothing elsewhere. */
const seesA: Rights = {
  permissions: [],
  rules: [rule({ container: '/a/', transform: 'reveal', permissions: ['token:read', 'token:search'] })],
};

describe('a token that expires while the vault answers', () => {
  it.each(['listTokens', 'searchTokens'] as const)('is not shown by %s', async (operation) => {
    const caller = await newCaller(vault.twins, vault.cast.manager, { type: 'private', ...everything });
    const expires_at = new Date(vault.twins.clock.now().getTime() + 60_000).toISOString();
    const body = {
      id: `ends-${operation}`,
      type: 'token',
      data: 'short-lived',
      containers: ['/a/'],
      expires_at,
    };
    await must(vault.twins, vault.cast.author, { operation: 'createToken', body });
    const asked: Asked =
      operation === 'listTokens' ? { operation } : { operation, body: { query: 'type:token' } };
    const lock = await vault.lockTokens();
    const telling = tell(vault.twins, caller, asked);
    await lock.isAwaited();
    await delay(bodyTookMs);
    vault.twins.clock.advance(60_000);
    await lock.release();
    const { body: answer } = await telling;
    expect(answer).toHaveProperty('pagination');
    expect(JSON.stringify(answer)).not.toContain('short-lived');
  });
});

describe('a token that is changed after it was read and before the answer leaves', () => {
  const asks: Readonly<Record<string, (id: string) => Asked>> = {
    'a read': (id) => ({ operation: 'getToken', params: { id } }),
    'a list': () => ({ operation: 'listTokens' }),
    'a search': () => ({ operation: 'searchTokens', body: { query: 'type:token' } }),
    detokenize: (id) => ({ operation: 'detokenize', body: { data: `{{ ${id} }}` } }),
  };
  const changes: Readonly<Record<string, (id: string) => Asked>> = {
    'moved to where the caller sees nothing': (id) => ({
      operation: 'updateToken',
      params: { id },
      body: { containers: ['/b/'] },
    }),
    'given other data': (id) => ({ operation: 'updateToken', params: { id }, body: { data: 'new' } }),
    deleted: (id) => ({ operation: 'deleteToken', params: { id } }),
  };
  const cases = Object.keys(asks).flatMap((ask) =>
    Object.keys(changes).map((change) => [change, ask] as const),
  );
  let made = 0;

  it.each(cases)('and %s is not shown as it was by %s', async (change, ask) => {
    const caller = await newCaller(vault.twins, vault.cast.manager, { type: 'private', ...seesA });
    const id = `changed-${++made}`;
    const body = { id, type: 'token', data: 'as it was', containers: ['/a/'] };
    await must(vault.twins, vault.cast.author, { operation: 'createToken', body });
    const held = vault.twins.holdReadings();
    const telling = tell(vault.twins, caller, asks[ask]?.(id) ?? { operation: 'listTokens' });
    await waitUntil(() => held.isHeld(), { what: 'the answer' });
    await must(vault.twins, vault.cast.author, changes[change]?.(id) ?? { operation: 'listTokens' });
    // The vault looks again at tokens of answers that took longer than this.
    await delay(bodyTookMs);
    held.release();
    expect(JSON.stringify((await telling).body)).not.toContain('as it was');
    await tell(vault.twins, vault.cast.author, { operation: 'deleteToken', params: { id } });
  });
});

describe('a token that others change after a patch and before its answer leaves', () => {
  const changesMasked: Role = {
    type: 'private',
    permissions: [],
    rules: [rule({ container: '/a/', transform: 'mask', permissions: ['token:read', 'token:update'] })],
  };
  const patch = (body: Json): Asked => ({ operation: 'updateToken', params: { id: 'patched' }, body });

  /** The answer to a patch that waits for the read models. The author changes the token meanwhile. */
  async function patchWhile(change?: Json): Promise<string> {
    const caller = await newCaller(vault.twins, vault.cast.manager, changesMasked);
    const body = { id: 'patched', type: 'token', data: 'as it was', mask: '{{ data }}', containers: ['/a/'] };
    await must(vault.twins, vault.cast.author, { operation: 'createToken', body });
    const lock = await vault.lockTokens();
    const telling = tell(vault.twins, caller, patch({ metadata: { of: 'the patch' } }));
    await lock.isAwaited();
    vault.twins.clock.advance(1);
    if (change !== undefined) await tell(vault.twins, vault.cast.author, patch(change), { isAsync: true });
    await delay(bodyTookMs);
    await lock.release();
    const { body: answer } = await telling;
    await must(vault.twins, vault.cast.author, { operation: 'deleteToken', params: { id: 'patched' } });
    return JSON.stringify(answer);
  }

  it('is shown by its mask when it was not changed', async () => {
    expect(await patchWhile()).toContain('as it was');
  });

  it('is not shown when it was moved to where the caller sees nothing', async () => {
    expect(await patchWhile({ containers: ['/b/'] })).not.toContain('as it was');
  });

  it('is shown by the mask that it was given', async () => {
    const answer = await patchWhile({ data: 'as it is', mask: 'hidden' });
    expect(answer).toContain('hidden');
    expect(answer).not.toMatch(/as it/);
  });
});

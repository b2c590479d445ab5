import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import {
  ForbiddenError,
  ReactorInvoked,
  ReactorSucceeded,
  runConsolePlace,
  streams,
  tokenStatementOf,
  TokenUpdated,
  type EventName,
  type NewDataOf,
  type RunConsole,
  type ShownInvocation,
  type VaultEventType,
} from '@token-vault/contracts';
import { secret } from '@token-vault/crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { managerOf, principalOf, ruleOn, setUpVault, unavailable, type Vault } from './vault.ts';

const minuteMs = 60_000;
const line = { level: 'log', text: 'the number is 4242' } as const;
const sealed = 'sv1.00000000-0000-4000-8000-000000000000.AAAA';

let vault: Vault;
let tenantId: string;
let invoker: Principal;

beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());
beforeEach(async () => {
  vault.clock.set('2030-01-01T00:00:00.000Z');
  tenantId = await vault.tenant();
  invoker = principalOf(tenantId, { rules: [ruleOn('/general/', 'reveal')] });
});
afterEach(() => vault.beforeRecord());

/** A run that the invoker asked for and that printed a line. */
async function run(content: Partial<RunConsole> = {}, sealedFor?: string): Promise<string> {
  const id = randomUUID();
  const append = <Type extends VaultEventType>(name: EventName<Type>, data: NewDataOf<Type>) =>
    vault.append(tenantId, streams.invocation(tenantId, id), name, data, invoker);
  const run = { invocation_id: id, reactor_id: randomUUID() };
  const printed: RunConsole = {
    lines: [line],
    isCut: false,
    tokens: [],
    areAllNamed: true,
    invokedBy: invoker.actor.id,
    endsAt: '2030-01-01T01:00:00.000Z',
    ...content,
  };
  const place = runConsolePlace(tenantId, sealedFor ?? id);
  const destroyAfter = new Date(printed.endsAt);
  const console = await vault.keyRing.sealNew(place, secret(printed), { destroyAfter });
  const asked = { reactor_revision: 0, args: sealed, token_ids: [], timeout_ms: 10_000, depth: 0 };
  await append(ReactorInvoked, { ...run, ...asked, mode: 'sync' });
  await append(ReactorSucceeded, { ...run, mode: 'sync', result: sealed, console });
  await vault.settle();
  return id;
}
const get = (id: string, by: Principal = invoker) =>
  vault.call<ShownInvocation>('getInvocation', by, { params: { invocation_id: id } });
const shown = { lines: [line], is_cut: false, kept_until: '2030-01-01T01:00:00.000Z' };

/** The tokens that the log says were shown, with the transform. */
async function readings(): Promise<string[]> {
  const stream = streams.access(tenantId, vault.clock.now().toISOString().slice(0, 10));
  const found: string[] = [];
  for await (const { type, data } of vault.store.readStream(stream))
    if (type === 'TokensRead') found.push(...data.tokens.map((each) => `${each.token_id} ${each.transform}`));
  return found;
}

describe('the lines of a run', () => {
  it('that was shown no token are shown to who may read reactors, and to who asked for the run', async () => {
    const id = await run();
    for (const by of [managerOf(tenantId), invoker]) {
      const { console, console_withheld: withheld } = await get(id, by);
      expect([console, withheld]).toEqual([shown, undefined]);
    }
    await expect(get(id, principalOf(tenantId))).rejects.toThrow(ForbiddenError);
    await expect(get(randomUUID(), principalOf(tenantId))).rejects.toThrow(ForbiddenError);
    const { data } = await vault.call<{ data: object[] }>('listInvocations', managerOf(tenantId), {});
    expect(JSON.stringify(data)).not.toContain('4242');
  });

  it('that was shown a token are shown to who may see it as much, and the reading is on record first', async () => {
    const token = await vault.token(tenantId, { mask: '{{ data | reveal_last: 4 }}' });
    const id = await run({ tokens: [{ id: token, transform: 'reveal' }] });
    expect((await get(id)).console).toEqual(shown);
    expect(await readings()).toEqual([`${token} reveal`]);
    vault.beforeRecord(() => Promise.reject(unavailable));
    await expect(get(id)).rejects.toThrow('the disk is full');
  });

  it('are withheld from all others, with a reason', async () => {
    const token = await vault.token(tenantId, { mask: '{{ data | reveal_last: 4 }}' });
    const revealed = await run({ tokens: [{ id: token, transform: 'reveal' }] });
    const masked = await run({ tokens: [{ id: token, transform: 'mask' }] });
    const masking = { ...invoker, rules: [ruleOn('/general/', 'mask')] };
    const hidden = /not shown as the code/u;
    for (const by of [managerOf(tenantId), masking]) {
      const run = await get(revealed, by);
      expect([run.console, run.console_withheld]).toEqual([undefined, expect.stringMatching(hidden)]);
    }
    expect((await get(masked, masking)).console).toEqual(shown);
    expect((await get(masked, managerOf(tenantId))).console_withheld).toMatch(hidden);
    const atScreen = { ...invoker, shownAtMost: 'mask' as const };
    expect((await get(revealed, atScreen)).console_withheld).toMatch(hidden);
    const more = await run({ areAllNamed: false });
    expect((await get(more)).console_withheld).toMatch(/more tokens than are named/u);
  });

  it('do not open when a token of the run is gone, though another has its id', async () => {
    const token = await vault.token(tenantId);
    const id = await run({ tokens: [{ id: token, transform: 'reveal' }] });
    await vault.deleteToken(tenantId, token);
    await vault.settle();
    expect((await get(id)).console_withheld).toMatch(/is gone/u);
    vault.clock.advance(1_000);
    const again = await vault.token(tenantId, { token_id: token, expires_at: '2030-01-01T00:10:00Z' });
    const later = await run({ tokens: [{ id: again, transform: 'reveal' }] });
    expect((await get(id)).console_withheld).toMatch(/is gone/u);
    expect((await get(later)).console).toEqual(shown);
    vault.clock.advance(10 * minuteMs);
    expect((await get(later)).console_withheld).toMatch(/is gone/u);
  });

  it('are withheld when a token of the run has changed: they may hold what it was before', async () => {
    const token = await vault.token(tenantId);
    const id = await run({ tokens: [{ id: token, transform: 'reveal' }] });
    expect((await get(id)).console).toEqual(shown);
    vault.clock.advance(1_000);
    const content = { data: sealed, containers: ['/general/high/'] };
    const hashes = await vault.keyRing.hashes(tenantId);
    await vault.append(tenantId, streams.token(tenantId, token), TokenUpdated, {
      token_id: token,
      token_type: 'token',
      ...content,
      signature: hashes.sign(tokenStatementOf(token, 'token', content), 1),
    });
    await vault.settle();
    const later = await get(id);
    expect([later.console, later.console_withheld]).toEqual([
      undefined,
      expect.stringMatching(/was changed/u),
    ]);
  });

  it('are gone after their hour, and with the first cvc that the code was shown', async () => {
    const [hour, cvc] = [await run(), await run({ endsAt: '2030-01-01T00:05:00.000Z' })];
    vault.clock.advance(5 * minuteMs + 1);
    expect([(await get(hour)).console, await get(cvc)]).toEqual([shown, await get(cvc, managerOf(tenantId))]);
    expect(await get(cvc)).not.toHaveProperty('console');
    vault.clock.advance(55 * minuteMs);
    expect(await get(hour)).not.toHaveProperty('console');
  });

  it('are not taken from another run, and the read model alone makes nobody the one who asked', async () => {
    const copied = await run({}, randomUUID());
    await expect(get(copied)).rejects.toThrow();
    const ofOther = await run({ invokedBy: randomUUID() });
    expect((await get(ofOther)).console_withheld).toMatch(/did not ask/u);
  });
});

import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import {
  ReactorDeleted,
  ReactorInvoked,
  ReactorSucceeded,
  runConsolePlace,
  streams,
  type EventName,
  type NewDataOf,
  type RunConsole,
  type SealedValue,
  type ShownInvocation,
  type VaultEventType,
} from '@token-vault/contracts';
import { secret } from '@token-vault/crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { managerOf, principalOf, setUpVault, type Vault } from './vault.ts';

const minuteMs = 60_000;
const line = { level: 'log', text: 'the number is 4242' } as const;
const sealed = 'sv1.00000000-0000-4000-8000-000000000000.AAAA' as SealedValue;

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
  invoker = principalOf(tenantId);
});

/** A run that the invoker asked for and that printed a line. */
async function run(
  content: Partial<RunConsole> = {},
  sealedFor?: string,
  reactorId: string = randomUUID(),
): Promise<string> {
  const id = randomUUID();
  const append = <Type extends VaultEventType>(name: EventName<Type>, data: NewDataOf<Type>) =>
    vault.append(tenantId, streams.invocation(tenantId, id), name, data, invoker);
  const run = { invocation_id: id, reactor_id: reactorId };
  const printed: RunConsole = {
    lines: [line],
    isCut: false,
    sawTokens: false,
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
const get = (id: string, by: Principal = managerOf(tenantId)) =>
  vault.call<ShownInvocation>('getInvocation', by, { params: { invocation_id: id } });
const shown = { lines: [line], is_cut: false, kept_until: '2030-01-01T01:00:00.000Z' };

describe('the lines of a run', () => {
  it('are shown with their run, and not in lists', async () => {
    const id = await run();
    const { console, console_withheld: withheld } = await get(id);
    expect([console, withheld]).toEqual([shown, undefined]);
    const { data } = await vault.call<{ data: object[] }>('listInvocations', managerOf(tenantId), {});
    expect(JSON.stringify(data)).not.toContain(line.text);
  });

  it('of a run that saw tokens are not kept, and the answer names the reason', async () => {
    const { console, console_withheld: withheld } = await get(await run({ lines: [], sawTokens: true }));
    expect([console, withheld]).toEqual([
      undefined,
      expect.stringMatching(/was given, was shown or made tokens/u),
    ]);
  });

  it('are gone after their hour', async () => {
    const id = await run();
    vault.clock.advance(60 * minuteMs - 1);
    expect((await get(id)).console).toEqual(shown);
    vault.clock.advance(1);
    expect(await get(id)).not.toHaveProperty('console');
  });

  it('are gone when their reactor is deleted, whose configuration they may hold', async () => {
    const reactorId = randomUUID();
    const id = await run({}, undefined, reactorId);
    expect((await get(id)).console).toEqual(shown);
    const stream = streams.reactor(tenantId, reactorId);
    await vault.append(tenantId, stream, ReactorDeleted, { reactor_id: reactorId, key_ids: [] }, invoker);
    expect(await get(id)).toMatchObject({ id, state: 'succeeded' });
    expect(await get(id)).not.toHaveProperty('console');
  });

  it('are not taken from another run', async () => {
    const copied = await run({}, randomUUID());
    await expect(get(copied)).rejects.toThrow();
  });
});

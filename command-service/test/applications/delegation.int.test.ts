import type { Principal } from '@token-vault/access';
import { managementPermissions, type Application, type Permission } from '@token-vault/contracts';
import { beforeEach, expect, it } from 'vitest';
import { createRequestContext } from '@token-vault/operations';
import { createApplicationReplay } from '../../src/index.ts';
import { refusal, useVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));
let strong: Principal;
let weak: Principal;
beforeEach(async () => {
  const manager = (permissions: readonly Permission[]): Principal => ({
    ...vault.principal,
    applicationType: 'management',
    permissions,
    rules: [],
  });
  strong = manager(managementPermissions);
  weak = manager(['application:create', 'application:update']);
});

const refused = refusal('forbidden');
const make = async (as: Principal, permissions: readonly Permission[], changes: object = {}) => {
  const body = { name: 'Manager', type: 'management', permissions, ...changes };
  return (await vault.call('createApplication', { body }, { as })).body as Application;
};
const update = (as: Principal, id: string, permissions: readonly Permission[]) =>
  vault.call('updateApplication', { params: { id }, body: { name: 'Manager', permissions } }, { as });
const regenerate = (as: Principal, id: string) =>
  vault.call('regenerateApplicationKey', { params: { id } }, { as });

it('a management application makes others with its own permissions, and not with more', async () => {
  await expect(make(weak, ['application:update'])).resolves.toBeDefined();
  await expect(make(weak, ['application:update', 'log:read'])).rejects.toMatchObject(refused);
  await expect(make(strong, managementPermissions)).resolves.toBeDefined();
});

it('cannot give permissions by an update that it does not have, not even to keep them', async () => {
  const { id } = await make(strong, ['application:create']);
  await expect(update(weak, id, ['application:update'])).resolves.toBeDefined();
  await expect(update(weak, id, ['application:update', 'log:read'])).rejects.toMatchObject(refused);
  const before = (await vault.events()).length;
  await expect(update(weak, id, managementPermissions)).rejects.toMatchObject(refused);
  expect(await vault.events()).toHaveLength(before);
});

it('cannot narrow an application that has more, to add a key before somebody widens it again', async () => {
  const { id } = await make(strong, ['application:update', 'log:read']);
  await expect(update(weak, id, ['application:update'])).rejects.toMatchObject(refused);
  await expect(update(strong, id, ['application:update'])).resolves.toBeDefined();
});

it('cannot take over an application with more permissions by regenerating its key', async () => {
  const { id } = await make(strong, managementPermissions);
  await expect(regenerate(weak, id)).rejects.toMatchObject(refused);
  await expect(regenerate(strong, id)).resolves.toBeDefined();
  const equal = await make(strong, ['application:create']);
  await expect(regenerate(weak, equal.id)).resolves.toBeDefined();
});

it('makes applications of other types as before', async () => {
  const { id } = await make(weak, ['token:read'], { type: 'private' });
  await expect(update(weak, id, ['token:create'])).resolves.toBeDefined();
  await expect(regenerate(weak, id)).resolves.toBeDefined();
});

it('is not shown again with its key once it has more permissions than the caller', async () => {
  const { id } = await make(weak, ['application:update']);
  const replay = createApplicationReplay({ store: vault.log, clock: vault.clock });
  const repeat = (principal: Principal) =>
    replay.require(id, createRequestContext({ principal, traceId: 'again', now: vault.clock.now() }));
  await expect(repeat(weak)).resolves.toBeUndefined();
  await update(strong, id, ['application:update', 'log:read']);
  await expect(repeat(weak)).rejects.toMatchObject(refused);
  await expect(repeat(strong)).resolves.toBeUndefined();
});

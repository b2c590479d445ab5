import { randomUUID } from 'node:crypto';
import type { OperationId } from '@token-vault/contracts';
import type { World } from '../world.ts';
import { idOf, managerOf, path, uuidOf, type Plan, type Ready } from './plan.ts';

const rule = { description: 'd', priority: 1, container: '/', transform: 'mask' };
const tokenRules = [{ ...rule, permissions: ['token:read'] }];
const sessionRules = [
  {
    description: 'd',
    priority: 1,
    conditions: [{ attribute: 'id', operator: 'equals', value: 'some-id' }],
    transform: 'mask',
    permissions: ['token:read'],
  },
];

export const freshApplication = async (world: World): Promise<string> =>
  (await world.make({ name: 'a', type: 'private', permissions: ['token:read'] })).id;
async function onKey(world: World): Promise<Ready> {
  const id = await freshApplication(world);
  return { params: { id, key_id: await idOf(managerOf(world), `/applications/${id}/keys`, {}) } };
}
const onVictim = async (world: World) => ({ params: { id: world.ids.victim } });

export const applicationPlans = {
  createApplication: {
    by: 'management',
    ready: () => ({ body: { name: 'a', type: 'private', permissions: ['token:read'], rules: tokenRules } }),
    written: { 'body.rules[].container': path },
  },
  listApplications: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  getApplicationByKey: { by: 'management', ready: () => ({}) },
  getApplication: { by: 'management', ready: onVictim, written: { 'path.id': uuidOf } },
  updateApplication: {
    by: 'management',
    ready: async (world) => ({ ...(await onVictim(world)), body: { name: 'a', rules: tokenRules } }),
    written: { 'body.rules[].container': path, 'path.id': uuidOf },
  },
  regenerateApplicationKey: { by: 'management', ready: onVictim, written: { 'path.id': uuidOf } },
  createApplicationKey: {
    by: 'management',
    ready: async (world) => ({ params: { id: await freshApplication(world) }, body: {} }),
    written: { 'path.id': uuidOf },
  },
  listApplicationKeys: { by: 'management', ready: onVictim, written: { 'path.id': uuidOf } },
  getApplicationKey: {
    by: 'management',
    ready: onKey,
    written: { 'path.id': uuidOf, 'path.key_id': uuidOf },
  },
  deleteApplicationKey: {
    by: 'management',
    ready: onKey,
    written: { 'path.id': uuidOf, 'path.key_id': uuidOf },
  },
  deleteApplication: {
    by: 'management',
    ready: async (world) => ({
      params: { id: (await world.make({ name: 'a', type: 'private', permissions: ['token:read'] })).id },
    }),
    written: { 'path.id': uuidOf },
  },
  listPermissions: { by: 'management', ready: () => ({}) },
  createSession: { by: 'public', ready: () => ({}) },
  authorizeSession: {
    by: 'revealing',
    async ready(world) {
      const opener = world.clientWithoutKey.withKey(world.keys.public ?? '');
      const { nonce } = (await opener.expect<{ nonce: string }>(201, 'POST', '/sessions')).body;
      return { body: { nonce, rules: sessionRules } };
    },
    written: { 'body.nonce': (number) => `${randomUUID()}.${number.padEnd(32, 'x')}` },
  },
} satisfies Partial<Record<OperationId, Plan>>;

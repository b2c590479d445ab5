import type { OperationId } from '@token-vault/contracts';
import type { World } from '../world.ts';
import { applicationPlans, freshApplication } from './applications.ts';
import { idOf, path, revealerOf, uuidOf, type Plan } from './plan.ts';
import { proxyPlans } from './proxies.ts';
import { reactorPlans } from './reactors.ts';
import { erasedToken, tokenPlans } from './tokens.ts';

const lastTransactions = new WeakMap<Plan, string>();
/**
 * An application may have 20 open transactions. A refused request may have left the last one of the plan open, so it
 * is ended.
 */
async function freshTransaction(world: World, plan: Plan): Promise<string> {
  const client = revealerOf(world);
  const last = lastTransactions.get(plan);
  if (last !== undefined) await client.request('POST', `/transactions/${last}/rollback`);
  const id = await idOf(client, '/transactions', {});
  lastTransactions.set(plan, id);
  return id;
}

export const plans: Readonly<Record<OperationId, Plan>> = {
  ...tokenPlans,
  ...applicationPlans,
  ...reactorPlans,
  ...proxyPlans,

  listLogs: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  summarizeLogs: { by: 'management', ready: () => ({ query: { interval: 'day', group_by: 'actor' } }) },
  listEntityTypes: { by: 'management', ready: () => ({}) },
  createTransaction: { by: 'private', ready: () => ({}) },
  commitTransaction: {
    by: 'revealing',
    async ready(world) {
      return { params: { id: await freshTransaction(world, this) } };
    },
    written: { 'path.id': uuidOf },
  },
  rollbackTransaction: {
    by: 'revealing',
    async ready(world) {
      return { params: { id: await freshTransaction(world, this) } };
    },
    written: { 'path.id': uuidOf },
  },
  getTenant: { by: 'management', ready: () => ({}) },
  updateTenant: {
    by: 'management',
    // The settings that the other operations need.
    ready: ({ receiverUrl }) => ({
      body: {
        name: 'tenant',
        settings: { data_misses_per_minute: '0', proxy_destinations: new URL(receiverUrl).origin },
      },
    }),
  },
  // A management application could delete the tenant and end the test: see the journey.
  deleteTenant: { by: 'revealing', ready: () => ({}) },
  getWebhookSecret: { by: 'management', ready: () => ({}) },
  rotateWebhookSecret: { by: 'management', ready: () => ({}) },
  getUsageReport: { by: 'management', ready: () => ({}) },
  openConsoleSession: { by: 'management', ready: () => ({}) },
  getConsoleSession: { by: 'management', ready: () => ({}) },
  endConsoleSession: { by: 'management', ready: () => ({}) },
  getConsoleOverview: { by: 'management', ready: () => ({}) },
  getAccessMatrix: { by: 'management', ready: () => ({}), written: { 'query.container': path } },
  explainAccess: {
    by: 'management',
    ready: async (world) => ({
      params: { id: await freshApplication(world) },
      query: { token_id: world.ids.token },
    }),
    written: { 'path.id': uuidOf },
  },
  verifyLog: { by: 'management', ready: () => ({}) },
  getErasureCertificate: {
    by: 'management',
    ready: async (world) => ({ params: { id: await erasedToken(world) } }),
  },
  getVaultOperations: { by: 'management', ready: () => ({}) },
  commandProjection: {
    by: 'management',
    ready: () => ({ params: { name: 'alerts' }, body: { action: 'rebuild' } }),
  },
};

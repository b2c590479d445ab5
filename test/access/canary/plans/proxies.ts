import type { OperationId } from '@token-vault/contracts';
import type { World } from '../world.ts';
import { freshApplication } from './applications.ts';
import { idOf, managerOf, uuidOf, type Plan, type Ready } from './plan.ts';
import { comment } from './reactors.ts';

const proxy = {
  name: 'p',
  destination: 'https://destination.invalid/v1',
  configuration: { 'some-key': 'v' },
};

/** A proxy that may have keys of its own. */
async function onProxy(world: World): Promise<{ readonly params: { readonly id: string } }> {
  const application = { id: await freshApplication(world) };
  return { params: { id: await idOf(managerOf(world), '/proxies', { ...proxy, application }) } };
}
async function onProxyKey(world: World): Promise<Ready> {
  const { id } = (await onProxy(world)).params;
  return { params: { id, key_id: await idOf(managerOf(world), `/proxies/${id}/keys`, {}) } };
}
const receivers = new WeakMap<World, Promise<string>>();
/** A proxy to the receiver. One serves all requests. */
async function onReceiver(world: World): Promise<Ready> {
  const made =
    receivers.get(world) ?? idOf(managerOf(world), '/proxies', { name: 'p', destination: world.receiverUrl });
  receivers.set(world, made);
  return { params: { id: await made, path: 'v1' } };
}
const writtenProxy = {
  'body.request.code': comment,
  'body.response.code': comment,
  'body.destination': (number: string) => `https://destination.invalid/${number}`,
  'body.destinations[]': (number: string) => `https://card-${number}.invalid`,
};

export const proxyPlans = {
  createProxy: { by: 'management', ready: () => ({ body: proxy }), written: writtenProxy },
  listProxies: { by: 'management', ready: () => ({ query: { size: '1' } }) },
  getProxy: { by: 'management', ready: onProxy, written: { 'path.id': uuidOf } },
  updateProxy: {
    by: 'management',
    ready: async (world) => ({ ...(await onProxy(world)), body: proxy }),
    written: { ...writtenProxy, 'path.id': uuidOf },
  },
  patchProxy: {
    by: 'management',
    ready: async (world) => ({ ...(await onProxy(world)), body: { name: 'p' } }),
    written: { ...writtenProxy, 'path.id': uuidOf },
  },
  deleteProxy: { by: 'management', ready: onProxy, written: { 'path.id': uuidOf } },
  createProxyKey: {
    by: 'management',
    ready: async (world) => ({ ...(await onProxy(world)), body: {} }),
    written: { 'path.id': uuidOf },
  },
  deleteProxyKey: {
    by: 'management',
    ready: onProxyKey,
    written: { 'path.id': uuidOf, 'path.key_id': uuidOf },
  },
  invokeProxy: { by: 'revealing', ready: onReceiver, written: { 'path.id': uuidOf } },
  proxy: {
    by: 'revealing',
    ready: (world) => ({ headers: { 'svc-proxy-url': world.receiverUrl } }),
  },
} satisfies Partial<Record<OperationId, Plan>>;

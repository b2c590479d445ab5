import type { Handlers } from '@token-vault/operations';
import type { Proxies } from './handlers.ts';

export function proxyRoutes(proxies: Proxies) {
  return {
    async createProxy({ body }, context) {
      const { proxy, position } = await proxies.create(body, context);
      return { body: proxy, position, endsWith: proxies.ownerOf(proxy.id, context) };
    },
    async updateProxy({ params, body }, context) {
      const { proxy, position, isRepeat } = await proxies.update(params.id, body, context);
      return { body: proxy, position, isRepeat, endsWith: proxies.ownerOf(proxy.id, context) };
    },
    async patchProxy({ params, body }, context) {
      const { position, isRepeat } = await proxies.patch(params.id, body, context);
      return { position, isRepeat };
    },
    async deleteProxy({ params }, context) {
      return { position: await proxies.delete(params.id, context) };
    },
    async createProxyKey({ params, body }, context) {
      const { key, position } = await proxies.addKey(params.id, body, context);
      return { body: key, position, endsWith: proxies.ownerOf(params.id, context) };
    },
    async deleteProxyKey({ params }, context) {
      return proxies.deleteKey(params.id, params.key_id, context);
    },
  } satisfies Handlers;
}

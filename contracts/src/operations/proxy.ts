import type { Operation } from './definition.ts';

export const proxyOperations = {
  proxy: {
    method: 'ANY',
    path: '/proxy',
    service: 'proxy',
    permission: 'token:use',
    entity: 'proxy',
    summary: 'Send a request to another server, with data in place of tokens',
    isRaw: true,
    success: 200,
    isLoggedOnly: true,
  },
} as const satisfies Record<string, Operation>;

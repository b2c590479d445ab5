import { afterEach, expect } from 'vitest';
import type { Handlers } from '@token-vault/operations';
import { startTinyApp, type Reply, type TinyApp, type TinyOptions } from './tiny-app.ts';

export const canary = '4111111111111111';

const echo: Handlers = {
  createToken: async ({ body }) => ({ body: { type: body.type, data: body.data.expose() } }),
  getToken: async ({ params }) => ({ body: { id: params.id } }),
  listTokens: async ({ query }) => ({ body: query }),
  updateToken: async ({ body }) => ({ body: { patched: body } }),
  deleteToken: async () => ({}),
  createTransaction: async () => ({ body: { is: 'open' } }),
  getReactor: async ({ params }) => ({ body: params }),
  createApplication: async () => ({ body: {} }),
};

/** The edge with handlers that echo their input, unless a test gives others. Each test starts its own. */
export function useEdge() {
  let app: TinyApp;
  afterEach(() => app.stop());
  return {
    get app() {
      return app;
    },
    start: async (options: TinyOptions = {}): Promise<TinyApp> => {
      app = await startTinyApp({ ...options, handlers: { ...echo, ...options.handlers } });
      return app;
    },
  };
}

export const json = { 'Content-Type': 'application/json' };
export const post = (body: unknown, headers: Record<string, string> = json) => ({
  method: 'POST',
  headers,
  body,
});

export function expectProblem(reply: Reply, status: number): void {
  expect(reply.status).toBe(status);
  expect(reply.headers['content-type']).toBe('application/problem+json');
  expect(reply.body).toMatchObject({ status, trace_id: reply.headers['svc-trace-id'] });
  for (const field of ['type', 'title', 'detail', 'instance']) expect(reply.body[field]).toBeTypeOf('string');
}

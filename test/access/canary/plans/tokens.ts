import type { OperationId } from '@token-vault/contracts';
import { cardNumber, waitUntil } from '@token-vault/test-support';
import type { World } from '../world.ts';
import { idAndBody, idOf, managerOf, path, revealerOf, type Plan } from './plan.ts';

const expressionOf = (number: string): string => `{{ data.number | append: "${number}" }}`;
const token = () => ({ type: 'card', data: { number: cardNumber('5'), cvc: '123' } });
const writtenToken = {
  'body.containers[]': path,
  'body.mask': expressionOf,
  'body.search_indexes[]': expressionOf,
  'body.fingerprint_expression': expressionOf,
};
const onToken = async (world: World) => ({ params: { id: world.ids.token } });
const freshToken = (world: World) => idOf(revealerOf(world), '/tokens', { type: 'token', data: 'plain' });

/** A running vault destroys the keys of a deleted token within moments. */
export async function erasedToken(world: World): Promise<string> {
  const id = await freshToken(world);
  await revealerOf(world).expect(204, 'DELETE', `/tokens/${id}`);
  const isErased = async () => {
    const { status } = await managerOf(world).request('GET', `/tokens/${id}/erasure-certificate`);
    return status === 200;
  };
  await waitUntil(isErased, { what: 'the keys of a deleted token' });
  return id;
}

export const tokenPlans = {
  createToken: {
    by: 'revealing',
    ready: () => ({
      body: { ...token(), mask: '{{ data.number | last4 }}', search_indexes: ['{{ data.number }}'] },
    }),
    svc: 'tokens.create',
    values: ({ body }) => [body ?? null],
    written: writtenToken,
  },
  searchTokens: {
    by: 'revealing',
    ready: () => ({ body: { query: 'type:card' } }),
    svc: 'tokens.search',
    values: ({ body }) => [body ?? null],
    written: { 'body.query': (number) => `data:${number} OR metadata.card:"${number}"` },
  },
  listTokens: {
    by: 'revealing',
    ready: () => ({ query: { size: '1' } }),
    svc: 'tokens.list',
    values: ({ query }) => [{ ...query }],
  },
  getToken: { by: 'revealing', ready: onToken, svc: 'tokens.retrieve', values: idAndBody },
  updateToken: {
    by: 'revealing',
    ready: async (world) => ({ ...(await onToken(world)), body: { metadata: { a: 'b' } } }),
    svc: 'tokens.update',
    values: idAndBody,
    written: writtenToken,
  },
  deleteToken: {
    by: 'revealing',
    ready: async (world) => ({ params: { id: await freshToken(world) } }),
    svc: 'tokens.delete',
    values: idAndBody,
  },
  createTokens: {
    by: 'revealing',
    ready: () => ({ body: { tokens: [token()] } }),
    svc: 'tokens.createMany',
    values: ({ body }) => [body ?? null],
  },
  deleteTokens: {
    by: 'revealing',
    ready: async (world) => ({ body: { ids: [await freshToken(world)] } }),
    svc: 'tokens.deleteMany',
    values: ({ body }) => [body ?? null],
  },
  detokenize: {
    by: 'revealing',
    ready: (world) => ({ body: { text: `{{ ${world.ids.token} }}` } }),
    svc: 'detokenize',
    values: ({ body }) => [body ?? null],
  },
  tokenize: {
    by: 'revealing',
    ready: () => ({ body: { card: token(), bare: 'plain' } }),
    svc: 'tokenize',
    values: ({ body }) => [body ?? null],
  },
} satisfies Partial<Record<OperationId, Plan>>;

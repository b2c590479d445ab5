import { TokensRead } from '@token-vault/contracts';
import { expect, it } from 'vitest';
import { createRequestContext } from '../src/index.ts';

const contextOf = (idempotencyScope?: readonly string[]) =>
  createRequestContext({
    principal: {
      tenant: { id: '7d9f0c5e-4a53-4b0e-9a55-0a3c1d2e4f60', plan: 'standard', settings: {} },
      actor: { kind: 'application', id: 'a' },
      applicationId: 'a',
      applicationType: 'private',
      permissions: [],
      rules: [],
      reason: 'ticket 1',
    },
    traceId: 't',
    now: new Date(0),
    idempotencyScope,
  });

it('gives the items of a repeated request the same ids, in whatever order they are handled', () => {
  const [first, second] = [contextOf(['key']), contextOf(['key'])];
  const idsOf = (context: typeof first, index: number) => {
    const item = context.part(index);
    return [item.newEntityId(), item.event(TokensRead, { operation: 'read', tokens: [] }).id];
  };
  const inOrder = [idsOf(first, 0), idsOf(first, 1)];
  const backwards = [idsOf(second, 1), idsOf(second, 0)];
  expect(backwards.reverse()).toEqual(inOrder);
  expect(new Set([...inOrder.flat(), first.newEntityId()]).size).toBe(5);
});

it('makes items of the same request, with its reason and its budget', () => {
  const context = contextOf();
  const item = context.part(3);
  expect(item.identity).toBe(context.identity);
  expect(item.metadata).toEqual(context.metadata);
  expect(item.metadata.reason).toBe('ticket 1');
});

import { expect, it } from 'vitest';
import { tenantOf } from '../src/tenant-of.ts';

const [a, b] = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222'];
const rowWith = (metadata: string) => ({ metadata }) as Parameters<typeof tenantOf>[0];

it.each([
  [`{"tenant_id":"${a}","actor":{}}`, a],
  [`{"actor":{},"tenant_id":"${a}"}`, a],
  // A writer that bypasses the vault cannot hide an event of one tenant in the chain of another.
  [`{"tenant_id":"${a}","tenant_id":"${b}"}`, b],
  [`{"tenant_id":"${a}","\\u0074enant_id":"${b}"}`, b],
])('the tenant of an event with %s is the one that all readers of the log read', (metadata, tenantId) => {
  expect(tenantOf(rowWith(metadata))).toBe(tenantId);
  expect((JSON.parse(metadata) as { tenant_id: string }).tenant_id).toBe(tenantId);
});

it.each(['{"tenant_id":"short"}', '{"tenant_id":7}', '{}', '[]', 'null', '', '{"tenant_id":'])(
  'an event with %s names no tenant',
  (metadata) => expect(tenantOf({ metadata })).toBeUndefined(),
);

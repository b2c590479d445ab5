import { secret, type SealedValue } from '@token-vault/crypto';
import type { JsonInput } from '@token-vault/contracts';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { expect, it } from 'vitest';
import { showToken } from '../src/tokens/reveal.ts';
import type { TokenRow } from '../src/tokens/row.ts';
import { Turns } from '../src/tokens/turns.ts';

const now = new Date('2030-01-01T00:00:00Z');

const cardWith = (mask: object): TokenRow => ({
  tenant_id: 'tenant',
  id: 'card',
  type: 'card',
  data: 'data' as SealedValue,
  cvc: 'cvc' as SealedValue,
  cvc_expires_at: new Date(now.getTime() + 1_000),
  mask: JSON.stringify(mask),
  container: '/pci/high/',
  metadata: null,
  search_indexes: null,
  fingerprint: null,
  fingerprint_expression: null,
  expires_at: null,
  expires_at_text: null,
  created_by: 'application',
  created_at: now,
  modified_by: null,
  modified_at: null,
  set_without_sight: null,
  signature: null,
});

/** The sealed values that are opened, and the data that is shown. */
async function shown(row: TokenRow, transform: 'mask' | 'reveal') {
  const opened: string[] = [];
  const keyRing = {
    async open<Value extends JsonInput>(_context: object, sealed: string) {
      opened.push(sealed);
      const values: Record<string, JsonInput> = { data: { number: '4242' }, cvc: '123' };
      return secret(values[sealed] as Value);
    },
  };
  const expressions = createExpressions(createInlineWorkers()).of(
    {},
    { tenantId: 'tenant', applicationId: 'a' },
  );
  const { data } = await showToken({ keyRing, expressions, turns: new Turns(), now }, row, transform);
  return { opened, data };
}

it('opens the cvc only for a caller that sees it, once the mask is known', async () => {
  const masked = cardWith({ number: '{{ data.number }}' });
  await shown(masked, 'mask');
  expect(await shown(masked, 'mask')).toEqual({ opened: ['data'], data: { number: '4242' } });
  expect(await shown(masked, 'reveal')).toEqual({
    opened: ['data', 'cvc'],
    data: { number: '4242', cvc: '123' },
  });
  const showing = cardWith({ cvc: '{{ data.cvc }}' });
  await shown(showing, 'mask');
  expect(await shown(showing, 'mask')).toEqual({ opened: ['data', 'cvc'], data: { cvc: '123' } });
});

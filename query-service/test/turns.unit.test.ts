import type { JsonInput } from '@token-vault/contracts';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { secret, type SealedValue } from '@token-vault/crypto';
import { describe, expect, it } from 'vitest';
import { showToken } from '../src/tokens/reveal.ts';
import type { TokenRow } from '../src/tokens/row.ts';
import { Turns } from '../src/tokens/turns.ts';

const now = new Date();
const stored = JSON.stringify('x'.repeat(4_000));

function rowOf(id: number, length: number): TokenRow {
  const absent = {
    cvc: null,
    cvc_expires_at: null,
    metadata: null,
    search_indexes: null,
    fingerprint: null,
    fingerprint_expression: null,
    expires_at: null,
    expires_at_text: null,
    modified_by: null,
    modified_at: null,
    set_without_sight: null,
    signature: null,
  };
  return {
    ...absent,
    tenant_id: 'tenant',
    id: `token ${id}`,
    type: 'token',
    data: 'x'.repeat(length) as SealedValue,
    mask: JSON.stringify('{{ data | reveal: 1 }}'),
    container: '/',
    created_by: 'application',
    created_at: now,
  };
}

/** How often another request could use the thread while a page was being shown. */
async function turnsDuring(page: readonly TokenRow[]): Promise<number> {
  const expressions = createExpressions(createInlineWorkers()).of(
    {},
    { tenantId: 'tenant', applicationId: 'a' },
  );
  const keyRing = { open: async <Value extends JsonInput>() => secret(JSON.parse(stored) as Value) };
  const showing = { keyRing, expressions, turns: new Turns(), now };
  let [turns, isShown] = [0, false];
  const count = (): void => {
    turns += 1;
    if (!isShown) setImmediate(count);
  };
  setImmediate(count);
  const shown = await Promise.all(page.map((row) => showToken(showing, row, 'mask')));
  isShown = true;
  expect(shown.map(({ data }) => typeof data)).toEqual(page.map(() => 'string'));
  return turns;
}

describe('a page of masked tokens', () => {
  it('lets other requests use the thread between a few tokens of 4 KB', async () => {
    const page = Array.from({ length: 30 }, (_, id) => rowOf(id, 5_400));
    expect(await turnsDuring(page)).toBeGreaterThanOrEqual(page.length / 5);
  });

  it('is shown at once when the tokens are small', async () => {
    const page = Array.from({ length: 100 }, (_, id) => rowOf(id, 100));
    expect(await turnsDuring(page)).toBeLessThanOrEqual(2);
  });
});

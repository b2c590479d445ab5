import type { Holder, Turn } from '@token-vault/batching';
import { describe, expect, it } from 'vitest';
import { matrixRows } from '../src/access/matrix.ts';
import type { ApplicationRow } from '../src/applications/queries.ts';
import { managerOf, ruleOn } from './principals.ts';

const manager = managerOf('tenant');
const rowOf = (id: string): ApplicationRow => ({
  tenant_id: manager.tenant.id,
  id,
  name: id,
  type: 'private',
  permissions: [],
  rules: [ruleOn('/', 'redact', 2), ruleOn('/a/', 'mask')],
  created_by: null,
  created_at: new Date(),
  modified_by: null,
  modified_at: null,
  expires_at: null,
  expires_at_text: null,
  key_hash: null,
  key_id: null,
  key_created_at: new Date(),
  keys: [],
  signature: null,
});

/** A share of the thread whose turn is over after each piece of work. It notes the turns that are given back. */
function spentShare() {
  const noted: string[] = [];
  const turn: Turn = {
    isOver: true,
    next: async () => void noted.push('next'),
    end: () => void noted.push('end'),
  };
  return { noted, begin: async ({ tenantId }: Holder) => (noted.push(`begin ${tenantId}`), turn) };
}

describe('the access matrix', () => {
  it('gives the thread to other tenants between two applications', async () => {
    const share = spentShare();
    const rows = await matrixRows(
      ['one', 'two', 'three'].map(rowOf),
      ['/a/b/', '/c/'],
      { principal: manager },
      share,
    );
    const access = [{ transform: 'mask' }, { transform: 'redact' }];
    expect(rows).toEqual(['one', 'two', 'three'].map((id) => ({ id, name: id, type: 'private', access })));
    expect(share.noted).toEqual(['begin tenant', 'next', 'next', 'next', 'end']);
  });

  it('is not made for a client that has gone', async () => {
    const gone = new Error('the client has gone');
    const caller = { principal: manager, signal: AbortSignal.abort(gone) };
    await expect(matrixRows([rowOf('one')], ['/a/'], caller)).rejects.toBe(gone);
  });
});

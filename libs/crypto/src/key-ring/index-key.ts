import type { Pool } from 'pg';
import { TenantKeysMissingError } from '../errors.ts';
import { unwrapKey, wrapKey } from '../wrapping.ts';
import { keyBinding } from './key-binding.ts';
import type { TenantKey } from './tenant-key.ts';

/**
 * The form in which a tenant's index key is wrapped also says whether unsigned records are accepted: records of a release that did not
 * sign, until all of them are signed (ADR 20). An attacker who can write the database could reset a mark in a table or in the log. This
 * mark is safe: only the tenant's key can wrap the index key in the other form.
 */
export type IndexKeyForm = 'accepts-unsigned' | 'all-signed';

/** The first byte of the stored index key. */
const formats: Readonly<Record<IndexKeyForm, number>> = { 'accepts-unsigned': 1, 'all-signed': 2 };

const bindingOf = ({ tenantId, version }: TenantKey, form: IndexKeyForm): Buffer =>
  keyBinding.indexKey(tenantId, version, formats[form]);

export const wrapIndexKey = (owner: TenantKey, indexKey: Buffer, form: IndexKeyForm): Buffer =>
  wrapKey(owner.indexKeyWrapping, indexKey, bindingOf(owner, form), formats[form]);

/** @throws SealBrokenError */
export function unwrapIndexKey(owner: TenantKey, wrapped: Buffer): { indexKey: Buffer; form: IndexKeyForm } {
  const form = wrapped[0] === formats['all-signed'] ? 'all-signed' : 'accepts-unsigned';
  return {
    indexKey: unwrapKey(owner.indexKeyWrapping, wrapped, bindingOf(owner, form), formats[form]),
    form,
  };
}

/** The mark that says whether unsigned records are accepted. */
export interface UnsignedRecords {
  /**
   * Tenants whose stored index key has the form of an older release. A writer of the database can set this byte: only the opened key
   * (`TenantHashes.acceptsUnsigned`) says whether unsigned records are accepted.
   */
  tenantsThatAcceptUnsigned(): Promise<readonly string[]>;
  /** All records of the tenant are signed: from now on unsigned ones are refused. Repeatable. @throws TenantKeysMissingError */
  refuseUnsigned(tenantId: string): Promise<void>;
}

export function createUnsignedRecords(
  pool: Pool,
  tenantKeys: { reload(tenantId: string): Promise<{ readonly versions: ReadonlyMap<number, TenantKey> }> },
): UnsignedRecords {
  return {
    async tenantsThatAcceptUnsigned() {
      const { rows } = await pool.query<{ tenant_id: string }>(
        `select tenant_id from key_ring.tenant_index_key where get_byte(wrapped, 0) = $1 order by tenant_id`,
        [formats['accepts-unsigned']],
      );
      return rows.map(({ tenant_id: id }) => id);
    },

    async refuseUnsigned(tenantId) {
      const { versions } = await tenantKeys.reload(tenantId);
      const { rows } = await pool.query<{ tenant_key_version: number; wrapped: Buffer }>(
        'select tenant_key_version, wrapped from key_ring.tenant_index_key where tenant_id = $1',
        [tenantId],
      );
      const [row] = rows;
      const owner = row && versions.get(row.tenant_key_version);
      if (!owner) throw new TenantKeysMissingError(tenantId);
      const { indexKey, form } = unwrapIndexKey(owner, row.wrapped);
      const wrapped = wrapIndexKey(owner, indexKey, 'all-signed');
      indexKey.fill(0);
      // A rotation may wrap the key again meanwhile, in the form that it finds. Then the next round changes the form.
      if (form !== 'all-signed')
        await pool.query(
          'update key_ring.tenant_index_key set wrapped = $3 where tenant_id = $1 and wrapped = $2',
          [tenantId, row.wrapped, wrapped],
        );
      await tenantKeys.reload(tenantId);
    },
  };
}

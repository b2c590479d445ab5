import type { Pool } from 'pg';

/** How far rotations of keys are: counts, no keys. */
export interface RotationState {
  /** Root keys in use; more than one while the root key is being rotated. */
  readonly rootKeys: number;
  readonly tenants: number;
  /** Tenants that have more than one version of their key. */
  readonly tenantsRotating: number;
}

export async function readRotationState(pool: Pool): Promise<RotationState> {
  const { rows } = await pool.query<RotationState>(`
    select (select count(*)::integer from key_ring.root_key where retired_at is null) as "rootKeys",
      count(*)::integer as tenants, count(*) filter (where versions > 1)::integer as "tenantsRotating"
    from (select count(*) as versions from key_ring.tenant_key group by tenant_id) t`);
  return rows[0] ?? { rootKeys: 0, tenants: 0, tenantsRotating: 0 };
}

import type { RetiredKey } from '@token-vault/operations';
import type { Principal } from '@token-vault/access';
import type pg from 'pg';

interface RetiredRow {
  readonly tenant_id: string;
  readonly application_id: string;
  readonly session_id: string | null;
  readonly reason: string;
}

/** Of a session every key is kept, so that its use before it is authorised and after its end names it. */
const retiredByKey = {
  name: 'retired-by-key',
  text: `
    select tenant_id, application_id, null::uuid as session_id, reason
      from rm_applications.retired_key where key_hash = $1
    union all
    select tenant_id, application_id, session_id, reason
      from rm_applications.session_key where key_hash = $1`,
};

/** Whose a key was that authenticates nobody now; undefined when it was nobody's. */
export async function findRetiredKey(
  pool: Pick<pg.Pool, 'query'>,
  hash: string,
): Promise<RetiredKey | undefined> {
  const { rows } = await pool.query<RetiredRow>({ ...retiredByKey, values: [hash] });
  const [row] = rows;
  if (!row) return undefined;
  const { tenant_id: tenantId, application_id: applicationId, session_id: sessionId, reason } = row;
  return { tenantId, applicationId, reason, ...(sessionId === null ? {} : { sessionId }) };
}

/** The key of a caller whose time is over, whom nobody has swept away yet. */
export function expiredKeyOf({ tenant, applicationId, actor }: Principal): RetiredKey {
  const key = { tenantId: tenant.id, applicationId, reason: 'expired' };
  return actor.kind === 'session' ? { ...key, sessionId: actor.id } : key;
}

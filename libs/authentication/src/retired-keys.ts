import type { RetiredKey } from '@token-vault/operations';
import type { Principal } from '@token-vault/access';
import type pg from 'pg';

interface RetiredRow {
  readonly tenant_id: string;
  readonly application_id: string;
  readonly session_id: string | null;
  readonly reason: string;
}

/** All keys of a session are kept, so that the use of a key before its authorisation or after its end names the session. */
const retiredByKey = {
  name: 'retired-by-key',
  text: `
    select tenant_id, application_id, null::uuid as session_id, reason
      from rm_applications.retired_key where key_hash = $1
    union all
    select tenant_id, application_id, null::uuid, reason
      from rm_applications.application_key where key_hash = $1
    union all
    select tenant_id, application_id, session_id, reason
      from rm_applications.session_key where key_hash = $1`,
};

/** The owner of a key that is no longer valid; undefined when the key never existed. */
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

/** The key of a caller that has expired, but that housekeeping has not removed yet. */
export function expiredKeyOf({ tenant, applicationId, actor }: Principal): RetiredKey {
  const key = { tenantId: tenant.id, applicationId, reason: 'expired' };
  return actor.kind === 'session' ? { ...key, sessionId: actor.id } : key;
}

import { aliased } from '@token-vault/contracts';
import type { RetiredKey } from '@token-vault/operations';
import type { Principal } from '@token-vault/access';
import type pg from 'pg';

interface RetiredRow {
  readonly tenant_id: string;
  readonly application_id: string;
  readonly session_id: string | null;
  readonly reason: string;
}

const r = aliased('applications', 'retired_key', 'r');
const k = aliased('applications', 'application_key', 'k');
const s = aliased('applications', 'session_key', 's');

/** All keys of a session are kept, so that the use of a key before its authorisation or after its end names the session. */
const retiredByKey = {
  name: 'retired-by-key',
  text: `
    select ${r.tenant_id}, ${r.application_id}, null::uuid as session_id, ${r.reason}
      from ${r.source} where ${r.key_hash} = $1
    union all
    select ${k.tenant_id}, ${k.application_id}, null::uuid, ${k.reason}
      from ${k.source} where ${k.key_hash} = $1
    union all
    select ${s.tenant_id}, ${s.application_id}, ${s.session_id}, ${s.reason}
      from ${s.source} where ${s.key_hash} = $1`,
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

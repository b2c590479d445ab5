import { aliased } from '@token-vault/contracts';
import type { Pool } from 'pg';

/** An entity that is due according to a read model. Its own stream decides whether it has really ended. */
export interface Candidate {
  readonly tenantId: string;
  readonly id: string;
}

/** The read model table and columns of due entities. All parts are constants of this file. */
interface Source {
  readonly of: { readonly source: string; readonly tenant_id: string; readonly id: string };
  readonly due: string;
  readonly idType: 'text' | 'uuid';
  readonly condition: string;
}

const t = aliased('tokens', 'token', 't');
const a = aliased('applications', 'application', 'a');
const s = aliased('applications', 'session', 's');
const c = aliased('applications', 'console_session', 'c');
const x = aliased('transactions', 'transaction', 'x');
const isOpen = `${x.status} = 'open'`;

export const sources = {
  expiredTokens: { of: t, due: t.expires_at, idType: 'text', condition: 'true' },
  dueCvcs: { of: t, due: t.cvc_expires_at, idType: 'text', condition: `${t.cvc} is not null` },
  expiredApplications: { of: a, due: a.expires_at, idType: 'uuid', condition: 'true' },
  expiredSessions: { of: s, due: s.expires_at, idType: 'uuid', condition: 'true' },
  expiredConsoleSessions: { of: c, due: c.ends_at, idType: 'uuid', condition: 'true' },
  expiredTransactions: { of: x, due: x.expires_at, idType: 'uuid', condition: isOpen },
  abandonedTransactions: { of: x, due: x.created_at, idType: 'uuid', condition: isOpen },
} as const satisfies Record<string, Source>;
export type SourceName = keyof typeof sources;

interface CandidateRow {
  readonly tenant_id: string;
  readonly id: string;
  /** Text, because a Date would lose the microseconds and thereby the order of the rows. */
  readonly due_at: string;
}

const firstUuid = '00000000-0000-0000-0000-000000000000';

const statement = ({ of, due, idType, condition }: Source): string => `
  select ${of.tenant_id}, ${of.id}::text as id, ${due}::text as due_at from ${of.source}
   where ${condition} and ${due} <= $1
     and (${due}, ${of.tenant_id}, ${of.id}) > ($2::timestamptz, $3::uuid, $4::${idType})
   order by ${due}, ${of.tenant_id}, ${of.id} limit $5`;

/** The projection runner makes the tables at its first start. Before that nothing is due. */
function isNotThereYet(error: unknown): boolean {
  const code: unknown = (error as { code?: unknown }).code;
  return code === '42P01' || code === '3F000';
}

/**
 * The entities that are due at `now`, the longest overdue first, in pages. Each candidate comes once, so that one
 * that stays due (locked by a transaction, failing) does not block the others.
 */
export async function* dueCandidates(
  pool: Pool,
  name: SourceName,
  now: Date,
  pageSize: number,
): AsyncGenerator<readonly Candidate[], void> {
  const source: Source = sources[name];
  let after = { due_at: '-infinity', tenant_id: firstUuid, id: source.idType === 'uuid' ? firstUuid : '' };
  for (;;) {
    let rows: CandidateRow[];
    try {
      const values = [now, after.due_at, after.tenant_id, after.id, pageSize];
      ({ rows } = await pool.query<CandidateRow>(statement(source), values));
    } catch (error) {
      if (isNotThereYet(error)) return;
      throw error;
    }
    const last = rows.at(-1);
    if (!last) return;
    yield rows.map(({ tenant_id: tenantId, id }) => ({ tenantId, id }));
    if (rows.length < pageSize) return;
    after = last;
  }
}

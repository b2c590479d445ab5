import {
  holderOf,
  shownAccess,
  type Principal,
  type ShownAccess,
  type TenantContext,
} from '@token-vault/access';
import { threadShares, type ThreadShares } from '@token-vault/batching';
import type { RequestContext } from '@token-vault/operations';
import type { ApplicationRow } from '../applications/queries.ts';

/** The application as a caller, with the rules of its row. */
export const callerOf = (row: ApplicationRow, tenant: TenantContext): Principal => ({
  tenant,
  actor: { kind: 'application', id: row.id },
  applicationId: row.id,
  applicationType: row.type,
  permissions: row.permissions,
  rules: [...row.rules].sort((one, other) => one.priority - other.priority),
});

export const named = ({ id, name, type }: ApplicationRow) => ({ id, name, type });

type MatrixRow = ReturnType<typeof named> & { readonly access: readonly ShownAccess[] };

/** How the data of tokens is shown to the application in each container: at most 200 containers by 100 rules, some 2 ms. */
function matrixRow(row: ApplicationRow, containers: readonly string[], tenant: TenantContext): MatrixRow {
  const caller = callerOf(row, tenant);
  // Rules of applications depend on the container only, so the decision is the same for all its tokens.
  const access = containers.map((path) => shownAccess(caller, 'token:read', { id: '', containers: [path] }));
  return { ...named(row), access };
}

/** The rows of a page, which may have 100 applications: other tenants use the thread between two of them. */
export async function matrixRows(
  applications: readonly ApplicationRow[],
  containers: readonly string[],
  { principal, signal }: Pick<RequestContext, 'principal' | 'signal'>,
  shares: Pick<ThreadShares, 'begin'> = threadShares,
): Promise<readonly MatrixRow[]> {
  const turn = await shares.begin(holderOf(principal), signal);
  try {
    const rows: MatrixRow[] = [];
    for (const row of applications) {
      if (turn.isOver) await turn.next();
      rows.push(matrixRow(row, containers, principal.tenant));
    }
    return rows;
  } finally {
    turn.end();
  }
}

import { createTenantCommands, type TenantCommands } from '@token-vault/command-service';
import type { Pagination, ReadModelName } from '@token-vault/contracts';
import { silentLogger } from '@token-vault/observability';
import { createAuditTrail, systemClock, type RequestContext } from '@token-vault/operations';
import { createOperatorQueries } from '@token-vault/query-service';
import type { Parts } from './parts.ts';
import type { Terminal } from './terminal.ts';

export async function tenantCommands({ store, keyRing }: Parts): Promise<TenantCommands> {
  const dependencies = { store, clock: systemClock, logger: silentLogger };
  return createTenantCommands({ ...dependencies, keyRing: await keyRing(), audit: createAuditTrail(store) });
}

/** Tells the operator when the created entity cannot be used yet. */
export async function waitFor(parts: Parts, position: string | undefined, terminal: Terminal): Promise<void> {
  if (await parts.caughtUp(position)) return;
  terminal.note('note: made, but the read models do not show it yet; see: vault projections status');
}

interface TenantQueries {
  readonly queries: ReturnType<typeof createOperatorQueries>;
  readonly context: RequestContext;
}

/** The lists of a tenant, which the read models with these names answer. @throws NotFoundError, CommandError */
export async function tenantQueries(
  parts: Parts,
  tenantId: string,
  names: readonly ReadModelName[],
): Promise<TenantQueries> {
  const { pool, store } = parts;
  const context = await (await tenantCommands(parts)).contextOf(tenantId);
  await parts.readModels(...names);
  const keyRing = await parts.keyRing();
  return {
    queries: createOperatorQueries({ pool, store, keyRing, audit: createAuditTrail(store) }),
    context,
  };
}

/** The largest page of a list. */
export const pageSize = 100;

/** The items of all pages. */
export async function* allPages<Item>(
  list: (page: number) => Promise<{ readonly pagination: Pagination; readonly data: readonly Item[] }>,
): AsyncGenerator<Item, void> {
  for (let number = 1; ; number += 1) {
    const { pagination, data } = await list(number);
    yield* data;
    if (number >= pagination.total_pages) return;
  }
}

import type { Holder } from '@token-vault/batching';
import type { WaitingOfTenant } from './look.ts';

export interface Waiting extends Holder {
  readonly id: string;
}

/** Ids that were read and wait for a place. Tenants take turns, and in those of a tenant its applications. */
export class WaitingLines {
  /** By tenant and application. Those whose turn it is come first. */
  readonly #lines = new Map<string, Map<string, string[]>>();
  /** Tenants that may have more in the read model than in their line. */
  readonly #behind = new Set<string>();

  /** In the order of their turns. */
  get tenants(): readonly string[] {
    return [...this.#lines.keys()];
  }

  /** The read model may have more of the tenant than its line. */
  leaveBehind(tenantId: string): void {
    this.#behind.add(tenantId);
  }

  /** A look begins with the first tenant. */
  beginAnew(): void {
    this.#behind.clear();
  }

  /** Applications keep their turns. New ones come last. */
  replace(tenantId: string, { idsOf, hasMore }: WaitingOfTenant): void {
    if (hasMore) this.#behind.add(tenantId);
    const before = this.#lines.get(tenantId)?.keys() ?? [];
    const line = new Map<string, string[]>();
    for (const applicationId of [...before, ...idsOf.keys()]) {
      const ids = idsOf.get(applicationId) ?? [];
      if (ids.length > 0) line.set(applicationId, ids);
    }
    this.#lines.set(tenantId, line);
  }

  /** Gives the next one of the tenant, whose turn, and whose application's turn, then comes after those of the others. */
  take(
    tenantId: string,
    mayBegin: (holder: Holder) => boolean,
    isKnown: (id: string) => boolean,
  ): Waiting | undefined {
    const line = this.#lines.get(tenantId) ?? new Map<string, string[]>();
    for (const [applicationId, ids] of [...line]) {
      if (!mayBegin({ tenantId, applicationId })) continue;
      line.delete(applicationId);
      const id = ids.find((each) => !isKnown(each));
      if (id === undefined) continue;
      line.set(applicationId, ids.slice(ids.indexOf(id) + 1));
      this.#lines.delete(tenantId);
      this.#lines.set(tenantId, line);
      return { tenantId, applicationId, id };
    }
    if (line.size === 0) this.#lines.delete(tenantId);
    return undefined;
  }

  /** The read model may have more of an application of the tenant whose line is empty. */
  hasRunOut(tenantId: string): boolean {
    const lines = [...(this.#lines.get(tenantId)?.values() ?? [])];
    return this.#behind.has(tenantId) && (lines.length === 0 || lines.some((ids) => ids.length === 0));
  }
}

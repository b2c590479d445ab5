import type { Holder } from '@token-vault/batching';

interface Tenant {
  taken: number;
  readonly takenBy: Map<string, number>;
  /** Undefined when there are several. */
  onlyApplication: string | undefined;
}

const mostRemembered = 10_000;

/**
 * A few places for each tenant, and a number for all. A task either gets one at once or gets none. An application leaves one place to
 * others as soon as several of the tenant have had tasks.
 */
export class ApplicationPlaces {
  readonly #perTenant: number;
  readonly #inAll: number;
  readonly #tenants = new Map<string, Tenant>();
  #taken = 0;

  constructor(perTenant: number, inAll = Infinity) {
    this.#perTenant = perTenant;
    this.#inAll = inAll;
  }

  /** The application has tasks. */
  see({ tenantId, applicationId }: Holder): void {
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) {
      this.#tidy();
      this.#tenants.set(tenantId, { taken: 0, takenBy: new Map(), onlyApplication: applicationId });
    } else if (tenant.onlyApplication !== applicationId) tenant.onlyApplication = undefined;
  }

  /** Forgets tenants without tasks when there are too many. */
  #tidy(): void {
    if (this.#tenants.size < mostRemembered) return;
    for (const [tenantId, { taken }] of this.#tenants) if (taken === 0) this.#tenants.delete(tenantId);
  }

  /** Whether the application has a place. */
  isHeldBy({ tenantId, applicationId }: Holder): boolean {
    return this.#tenants.get(tenantId)?.takenBy.has(applicationId) ?? false;
  }

  hasFree({ tenantId, applicationId }: Holder): boolean {
    if (this.#taken >= this.#inAll) return false;
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) return true;
    const { taken, takenBy, onlyApplication } = tenant;
    const most = onlyApplication === undefined ? Math.max(1, this.#perTenant - 1) : this.#perTenant;
    return taken < this.#perTenant && (takenBy.get(applicationId) ?? 0) < most;
  }

  /** Gives the function that frees the place, to be called once. Undefined when no place is free for the application. */
  take(holder: Holder): (() => void) | undefined {
    const { tenantId, applicationId } = holder;
    this.see(holder);
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined || !this.hasFree(holder)) return undefined;
    this.#taken += 1;
    tenant.taken += 1;
    tenant.takenBy.set(applicationId, (tenant.takenBy.get(applicationId) ?? 0) + 1);
    return () => {
      this.#taken -= 1;
      tenant.taken -= 1;
      const left = (tenant.takenBy.get(applicationId) ?? 1) - 1;
      if (left > 0) tenant.takenBy.set(applicationId, left);
      else tenant.takenBy.delete(applicationId);
    };
  }
}

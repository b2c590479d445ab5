/** A tenant counts as present for this time after it was seen last: it reads an answer before it sends the next request. */
const presentMs = 100;

interface Sighting {
  tenantId: string;
  atMs: number;
}

/** The tenants that use this process now. A tenant alone need not leave room for others. */
export class PresentTenants {
  readonly #nowMs: () => number;
  #latest: Sighting = { tenantId: '', atMs: -Infinity };
  /** The latest sighting of a tenant other than `#latest`. */
  #before: Sighting = { tenantId: '', atMs: -Infinity };

  /** @param nowMs monotonic milliseconds */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Called when work of a tenant begins or ends. */
  see(tenantId: string): void {
    if (this.#latest.tenantId !== tenantId) {
      this.#before = this.#latest;
      this.#latest = { tenantId, atMs: 0 };
    }
    this.#latest.atMs = this.#nowMs();
  }

  /** Whether no other tenant was seen in the last 100 ms. */
  isAlone(tenantId: string): boolean {
    const other = this.#latest.tenantId === tenantId ? this.#before : this.#latest;
    return this.#nowMs() - other.atMs >= presentMs;
  }
}

/** One instance for the process, because its tenants share its threads. */
export const presentTenants = new PresentTenants();

import { Agent } from 'undici';
import { createPinnedConnector, type ConnectorOptions } from './pinned-connector.ts';
import type { ResolveFor } from './resolver.ts';

/** The most servers with open connections of one tenant. A request to a further one fails. */
const maxOrigins = 200;
const idleMs = 60_000;

interface Own {
  readonly agent: Agent;
  lastUsed: number;
}

/**
 * Separate connections for each tenant: no tenant waits for another's look-ups, and response times do not reveal the
 * connections of other tenants.
 */
export class TenantAgents {
  readonly #options: Omit<ConnectorOptions, 'resolve'> & { readonly resolve: ResolveFor };
  readonly #agents = new Map<string, Own>();

  constructor(options: Omit<ConnectorOptions, 'resolve'> & { readonly resolve: ResolveFor }) {
    this.#options = options;
  }

  of(tenantId: string): Agent {
    const lastUsed = performance.now();
    this.#closeIdle(lastUsed - idleMs);
    const own = this.#agents.get(tenantId);
    if (own !== undefined) {
      own.lastUsed = lastUsed;
      return own.agent;
    }
    const { resolve, ...rest } = this.#options;
    const connect = createPinnedConnector({ ...rest, resolve: (hostname) => resolve(tenantId, hostname) });
    const agent = new Agent({ connect, maxOrigins, keepAliveTimeout: 10_000 });
    this.#agents.set(tenantId, { agent, lastUsed });
    return agent;
  }

  async destroy(): Promise<void> {
    await Promise.all([...this.#agents.values()].map(({ agent }) => agent.destroy()));
    this.#agents.clear();
  }

  #closeIdle(before: number): void {
    for (const [tenantId, { agent, lastUsed }] of this.#agents) {
      if (lastUsed >= before) continue;
      this.#agents.delete(tenantId);
      // Closes after the running requests end.
      void agent.close();
    }
  }
}

import type { ApplicationKey, LogEntry, Proxy } from '@token-vault/contracts';
import { cardNumber, type Client, type RequestOptions } from '@token-vault/test-support';
import { beforeAll } from 'vitest';
import { useDestination } from '../world/receivers.ts';
import { type Caller, makeCard, useVault } from '../world/vault.ts';

export interface Problem {
  readonly type: string;
  readonly detail: string;
  readonly errors?: Readonly<Record<string, readonly string[]>>;
}

type Sent = RequestOptions & { readonly by?: Client; readonly method?: string };

export const json = { 'Content-Type': 'application/json' };

/** A vault whose tenant may send to one destination, with a card and the requests to configured proxies. */
export function useProxies() {
  const number = cardNumber();
  const destination = useDestination();
  const vault = useVault(() => ({
    env: {
      VAULT_EGRESS_ALLOW: '127.0.0.1/32',
      NODE_EXTRA_CA_CERTS: destination.caFile,
      VAULT_LOG_LEVEL: 'debug',
    },
  }));
  const { manager } = vault;
  let backend: Caller;
  let application: Caller;
  let cardId: string;
  let traces = 0;

  beforeAll(async () => {
    await vault.setTenant({ proxy_destinations: `${destination.url} https://127.0.0.1:1` });
    const permissions = ['token:create', 'token:read', 'token:use', 'token:delete'];
    backend = await vault.makeApplication({ permissions });
    application = await vault.makeApplication({ permissions: ['token:use', 'token:create'] });
    cardId = await makeCard(backend.client, number);
  });

  /** By a request of its own trace, so that the log can be asked about it. */
  async function invoke(
    id: string,
    below = '',
    { by = backend.client, method = 'POST', headers, ...rest }: Sent = {},
  ) {
    const trace = `configured-${(traces += 1)}`;
    const answer = await by.request<Problem>(method, `/proxies/${id}/invoke${below}`, {
      ...rest,
      headers: { 'SVC-TRACE-ID': trace, ...headers },
    });
    return { ...answer, trace };
  }

  return {
    vault,
    destination,
    number,
    get backend() {
      return backend;
    },
    /** May use cards, and make tokens of them. */
    get application() {
      return application;
    },
    get cardId() {
      return cardId;
    },
    cardText: () => `{"n": "{{ ${cardId} | json: '$.number' }}"}`,
    newProxy: async (body: object = {}): Promise<string> => {
      const given = { name: 'p', destination: `${destination.url}/base`, ...body };
      return (await manager.expect<Proxy>(201, 'POST', '/proxies', { body: given })).body.id;
    },
    ofApplication: () => ({ application: { id: application.id } }),
    newKey: async (id: string, body: object = {}): Promise<ApplicationKey & { key: string }> => {
      const made = (await manager.expect<ApplicationKey>(201, 'POST', `/proxies/${id}/keys`, { body })).body;
      return { ...made, key: made.key ?? '' };
    },
    invoke,
    /** Without a key of a caller. */
    withKey: (id: string, below: string, sent: Sent = {}) => invoke(id, below, { key: null, ...sent }),
    /** Oldest first. */
    logOf: async (trace: string): Promise<readonly LogEntry[]> =>
      (await vault.logOf({ trace_id: trace })).toReversed(),
  };
}

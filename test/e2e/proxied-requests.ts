import type { LogEntry, Token } from '@token-vault/contracts';
import { type Answer, cardNumber, type Client, type RequestOptions } from '@token-vault/test-support';
import { beforeAll } from 'vitest';
import { useDestination } from '../world/receivers.ts';
import { standIn } from '../world/stand-in.ts';
import { makeCard, useVault } from '../world/vault.ts';
import type { Problem } from './configured-proxies.ts';

type Sent = RequestOptions & { readonly to?: string; readonly query?: string; readonly by?: Client };

/** Addresses that the vault may not send to, though the tenant allows them, and one where no server listens. */
const others =
  'https://127.0.0.1:1 https://169.254.169.254 https://[::1] https://10.0.0.1 http://10.0.0.1 https://*.localhost https://localhost';

/** A vault whose tenant may send to a destination, with a card and the requests to `/proxy`. */
export function useProxy() {
  const number = cardNumber();
  const destination = useDestination();
  const vault = useVault(() => ({
    env: { VAULT_EGRESS_ALLOW: '127.0.0.1/32', NODE_EXTRA_CA_CERTS: destination.caFile },
  }));
  let made: Client;
  let cardId: string;
  let traces = 0;
  const backend = standIn(() => made);
  const newCaller = async (body: object): Promise<Client> => (await vault.makeApplication(body)).client;

  beforeAll(async () => {
    await vault.setTenant({ proxy_destinations: `${destination.url} ${others}` });
    made = await newCaller({ permissions: ['token:create', 'token:read', 'token:use', 'token:delete'] });
    cardId = await makeCard(made, number);
  });

  const lastTrace = () => `proxied-${traces}`;

  /** By a request of its own trace, so that the log can be asked about it. */
  async function proxy(method: string, sent: Sent = {}): Promise<Answer<Problem> & { trace: string }> {
    const { to = `${destination.url}/v1`, query = '', by = backend, headers, ...rest } = sent;
    traces += 1;
    const trace = lastTrace();
    const all = { 'SVC-PROXY-URL': to, 'SVC-TRACE-ID': trace, ...headers };
    return { ...(await by.request<Problem>(method, `/proxy${query}`, { ...rest, headers: all })), trace };
  }

  /** Oldest first. */
  const logOf = async (trace: string): Promise<readonly LogEntry[]> =>
    (await vault.logOf({ trace_id: trace })).toReversed();

  return {
    vault: standIn(vault.process),
    destination,
    manager: vault.manager,
    /** May make, read, use and delete all tokens. */
    backend,
    number,
    card: {
      get id() {
        return cardId;
      },
    },
    newCaller,
    newToken: async (body: object): Promise<string> =>
      (await backend.expect<Token>(201, 'POST', '/tokens', { body })).body.id,
    proxy,
    /** The trace of the last request, also of one that has failed. */
    lastTrace,
    logOf,
    messagesOf: async (trace: string) => (await logOf(trace)).map(({ message }) => message),
  };
}

import { type Answer, cardNumber, type Client } from '@token-vault/test-support';
import type { LogEntry } from '@token-vault/contracts';
import { beforeAll } from 'vitest';
import { useReceiver } from '../world/receivers.ts';
import { type Caller, makeCard, useVault } from '../world/vault.ts';

export interface Problem {
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly errors: Readonly<Record<string, readonly string[]>>;
}
interface ReactResponse {
  readonly raw?: unknown;
  readonly tokens?: unknown;
}

/** A vault with a caller that may invoke reactors, and with a card. */
export function useReactors() {
  const number = cardNumber();
  const receiver = useReceiver(beforeAll);
  const vault = useVault();
  let backend: Caller;
  let cardId: string;

  const makeApplication = (grants: object = {}) =>
    vault.makeApplication({ permissions: ['token:create', 'token:read', 'token:use'], ...grants });
  beforeAll(async () => {
    backend = await makeApplication();
    cardId = await makeCard(backend.client, number);
  });

  const logOf = (id: string): Promise<readonly LogEntry[]> => vault.logOf({ entity_id: id });
  return {
    vault,
    receiver,
    number,
    get backend() {
      return backend;
    },
    get cardId() {
      return cardId;
    },
    makeApplication,
    /** A reactor whose function has this body. */
    makeFunction: (body: string, more?: Parameters<typeof vault.makeReactor>[1]): Promise<string> =>
      vault.makeReactor(`module.exports = async function (req) {\n${body}\n};`, more),
    react: <Body = ReactResponse>(
      id: string,
      body: object = {},
      client: Client = backend.client,
    ): Promise<Answer<Body>> => client.request<Body>('POST', `/reactors/${id}/react`, { body }),
    logOf,
    /** Oldest first. */
    messagesOf: async (id: string): Promise<readonly string[]> =>
      (await logOf(id)).map(({ message }) => message).reverse(),
  };
}

import type { Client } from '@token-vault/test-support';

interface OpenedSession {
  readonly session_key: string;
  readonly nonce: string;
}

/** A session that is not authorised yet. */
export async function openSession(opener: Client): Promise<{ nonce: string; client: Client; key: string }> {
  const { session_key: key, nonce } = (await opener.expect<OpenedSession>(201, 'POST', '/sessions')).body;
  return { nonce, client: opener.withKey(key), key };
}

/** A session with the rights of `grant`, such as `permissions`. */
export async function makeSession(opener: Client, authorizer: Client, grant: object): Promise<Client> {
  const { nonce, client } = await openSession(opener);
  await authorizer.expect(200, 'POST', '/sessions/authorize', { body: { nonce, ...grant } });
  return client;
}

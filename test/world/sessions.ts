import type { Client, RequestOptions } from '@token-vault/test-support';

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

/** Signs a browser in. Gives the headers of the requests of its page. */
export async function signIn(by: Client, origin: string): Promise<Readonly<Record<string, string>>> {
  const { headers } = await by.expect(201, 'POST', '/console/session');
  const cookie = headers.get('set-cookie')?.split(';')[0] ?? '';
  return { Cookie: cookie, Origin: origin, 'SVC-CONSOLE-SESSION': cookie.split(/[=.]/)[1] ?? '' };
}

/** The client of a page with these headers. */
export const pageOf = (client: Client, headers: Readonly<Record<string, string>>): Client => {
  const withCookie = (options: RequestOptions = {}): RequestOptions => ({
    ...options,
    key: null,
    headers: { ...headers, ...options.headers },
  });
  return {
    request: (method, path, options) => client.request(method, path, withCookie(options)),
    expect: (status, method, path, options) => client.expect(status, method, path, withCookie(options)),
    withKey: (key) => client.withKey(key),
  };
};

import type { ConsoleSession } from '@token-vault/contracts';
import type { Call, Reply, RunningVault } from './running-vault.ts';

export const signIn = (
  vault: RunningVault,
  key: string,
  headers: Record<string, string> = {},
): Promise<Reply> => vault.call({ method: 'POST', path: '/console/session', key, headers });

export const cookieOf = (reply: Reply): string => reply.headers.get('set-cookie')?.split(';')[0] ?? '';

/** The session of the last cookie, as a page names it that shows this session. */
export const shownBy = (cookie: string): Record<string, string> => ({
  'SVC-CONSOLE-SESSION': /=([\da-f-]{36})\.[^=]*$/.exec(cookie)?.[1] ?? '',
});

/** Requests as the page of the console sends them. When it starts and when it signs in, it shows no session. */
export function browser(vault: RunningVault, cookie: string) {
  const call = (request: Call): Promise<Reply> => {
    const isStart = request.path === '/console/session' && request.method !== 'DELETE';
    return vault.call({
      ...request,
      headers: {
        Cookie: cookie,
        Origin: vault.url,
        'Sec-Fetch-Site': 'same-origin',
        ...(isStart ? {} : shownBy(cookie)),
        ...request.headers,
      },
    });
  };
  return {
    call,
    must: async <Body>(status: number, request: Call): Promise<Body> => {
      const reply = await call(request);
      if (reply.status !== status)
        throw new Error(`${request.method ?? 'GET'} ${request.path} answered ${reply.status}: ${reply.text}`);
      return reply.body as Body;
    },
  };
}

/** A browser with a management and a private key, as the screens of tokens need. */
export async function signedIn(vault: RunningVault, privateKey: string) {
  const first = await signIn(vault, vault.managementKey);
  const both = await signIn(vault, privateKey, { Cookie: cookieOf(first) });
  if (both.status !== 201) throw new Error(`signing in answered ${both.status}: ${both.text}`);
  const session = both.body as ConsoleSession;
  return {
    ...browser(vault, cookieOf(both)),
    cookie: cookieOf(both),
    session,
    former: cookieOf(first),
  };
}

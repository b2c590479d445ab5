import { managementPermissions, methodsOf, operations, type Operation } from '@token-vault/contracts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newCaller, openCast } from './cast.ts';
import { openTwins, type Twins } from './twins.ts';

const minuteMs = 60_000;
const readsApplications = { type: 'management', permissions: ['application:read'], rules: [] } as const;

let twins: Twins;
let key: string;
let keyOfOther: string;
beforeAll(async () => {
  twins = await openTwins();
  [key = '', keyOfOther = ''] = await Promise.all((await twins.newPair()).map(newKey));
});
afterAll(() => twins.close());

async function newKey(tenantId: string): Promise<string> {
  const { manager } = await openCast(twins, tenantId, readsApplications);
  const permissions = [...managementPermissions];
  return (await newCaller(twins, manager, { type: 'management', permissions, rules: [] })).key;
}

async function signIn(by = key, cookie?: string): Promise<string> {
  const headers = { 'SVC-API-KEY': by, ...(cookie && { Cookie: cookie }) };
  const answer = await fetch(`${twins.url}/console/session`, { method: 'POST', headers });
  const setCookie = answer.headers.get('set-cookie')?.split(';')[0];
  expect(answer.status).toBe(201);
  return setCookie ?? '';
}
const sessionOf = (cookie: string): string => cookie.split(/[=.]/)[1] ?? '';
const statusOf = async (cookie: string) => {
  const headers = { Cookie: cookie, 'SVC-CONSOLE-SESSION': sessionOf(cookie) };
  return (await fetch(`${twins.url}/tenants/self`, { headers })).status;
};
const wait = (minutes: number) => twins.clock.advance(minutes * minuteMs);

it('a browser is signed out after 30 minutes without a request, and not before 25', async () => {
  const [used, idle] = [await signIn(), await signIn()];
  wait(24);
  expect(await statusOf(used)).toBe(200);
  wait(6);
  expect(await statusOf(idle)).toBe(401);
  expect(await statusOf(used)).toBe(200);
  wait(30);
  expect(await statusOf(used)).toBe(401);
});

it('a browser that signs in with the key of another tenant is signed out of the first', async () => {
  const first = await signIn();
  const others = await signIn(keyOfOther);
  const second = await signIn(keyOfOther, first);
  expect([await statusOf(first), await statusOf(others), await statusOf(second)]).toEqual([401, 200, 200]);
  const path = `/logs?entity_id=${sessionOf(first)}`;
  const entriesOf = async (of: string) => {
    const answer = await fetch(twins.url + path, { headers: { 'SVC-API-KEY': of } });
    return ((await answer.json()) as { data: { operation: string; actor_type: string }[] }).data;
  };
  expect((await entriesOf(key)).map(({ operation, actor_type: by }) => [operation, by])).toEqual(
    expect.arrayContaining([['delete', 'session']]),
  );
  expect(await entriesOf(keyOfOther)).toEqual([]);
});

it('a browser in continuous use is signed out after 12 hours', async () => {
  const cookie = await signIn();
  const statuses: number[] = [];
  for (let minutes = 0; minutes < 12 * 60; minutes += 20) {
    statuses.push(await statusOf(cookie));
    wait(20);
  }
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(await statusOf(cookie)).toBe(401);
});

describe('a page that shows another session than the cookie has now', () => {
  /** All operations that the cookie can authenticate, as a page with the cookie of `cookie` asks for them. */
  const asked = Object.entries<Operation>(operations)
    .filter(([, { isRaw, tellsConsoleSession }]) => !isRaw && tellsConsoleSession !== true)
    .map(([id, operation]) => ({
      id,
      method: methodsOf(operation)[0] ?? '',
      path: operation.path.replaceAll(/\{\w+\}/g, 'x'),
    }));
  const answersTo = (cookie: string, headers: Record<string, string>) =>
    Promise.all(
      asked.map(async ({ id, method, path }) => {
        const sent = { Cookie: cookie, Origin: twins.url, ...headers };
        const answer = await fetch(twins.url + path, { method, headers: sent });
        return [id, answer.status, ((await answer.json()) as { detail: string }).detail] as const;
      }),
    );

  it('is answered by no operation, nor is one that names no session', async () => {
    const shown = sessionOf(await signIn());
    const cookie = await signIn(keyOfOther);
    const refused = 'The cookie of the console is of another session than the page that sent the request.';
    expect(await answersTo(cookie, { 'SVC-CONSOLE-SESSION': shown })).toEqual(
      asked.map(({ id }) => [id, 401, refused]),
    );
    expect(await answersTo(cookie, {})).toEqual(
      asked.map(({ id }) => [id, 403, expect.stringContaining('SVC-CONSOLE-SESSION') as string]),
    );
    expect(await statusOf(cookie)).toBe(200);
  });

  it('adds no key to it', async () => {
    const shown = sessionOf(await signIn());
    const cookie = await signIn(keyOfOther);
    const headers = { 'SVC-API-KEY': key, Cookie: cookie, 'SVC-CONSOLE-SESSION': shown };
    const answer = await fetch(`${twins.url}/console/session`, { method: 'POST', headers });
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([401, null]);
    expect(await statusOf(cookie)).toBe(200);
  });

  it('learns which session it has', async () => {
    const cookie = await signIn(keyOfOther);
    const answer = await fetch(`${twins.url}/console/session`, { headers: { Cookie: cookie } });
    expect([answer.status, ((await answer.json()) as { id: string }).id]).toEqual([200, sessionOf(cookie)]);
  });
});

it('a refused request of a page is in the log of its session, and does not prolong it', async () => {
  const cookie = await signIn();
  const id = sessionOf(cookie);
  const ask = async (headers: Record<string, string>, method = 'GET', path = '/tenants/self') =>
    (await fetch(twins.url + path, { method, headers })).status;
  const own = { Cookie: cookie, 'SVC-CONSOLE-SESSION': id };
  wait(24);
  const traces = ['origin', 'site', 'unnamed', 'other', 'sign-in'].map((name) => `${name}-${id}`);
  const [origin = '', site = '', unnamed = '', other = '', signingIn = ''] = traces;
  const foreign = { Origin: 'http://evil.example' };
  expect(await ask({ ...own, ...foreign, 'SVC-TRACE-ID': origin }, 'POST', '/applications')).toBe(403);
  expect(await ask({ ...own, 'Sec-Fetch-Site': 'cross-site', 'SVC-TRACE-ID': site })).toBe(403);
  expect(await ask({ Cookie: cookie, 'SVC-TRACE-ID': unnamed })).toBe(403);
  const shown = { ...own, 'SVC-CONSOLE-SESSION': crypto.randomUUID() };
  expect(await ask({ ...shown, 'SVC-TRACE-ID': other })).toBe(401);
  const byKey = { 'SVC-API-KEY': key, ...foreign, 'SVC-TRACE-ID': signingIn };
  expect(await ask(byKey, 'POST', '/console/session')).toBe(403);
  const found = await Promise.all(
    traces.map(async (trace) => {
      const answer = await fetch(`${twins.url}/logs?trace_id=${trace}`, { headers: { 'SVC-API-KEY': key } });
      const { data } = (await answer.json()) as { data: { operation: string; actor_type: string }[] };
      return data.map(({ operation, actor_type: by }) => [operation, by]);
    }),
  );
  const ofSession = [['denied', 'session']];
  expect(found).toEqual([
    ofSession,
    ofSession,
    ofSession,
    [['authenticate', 'session']],
    [['denied', 'application']],
  ]);
  wait(6);
  expect(await statusOf(cookie)).toBe(401);
});

import { DomainError, parseDestinations, updateTenantBody, type Plan, secret } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { destinationOf, isAllowed } from '../src/destination.ts';

const sender = { applicationId: 'caller', authorizedBy: 'authorizer' };

function ask(
  url: string | readonly string[],
  plan: Plan = 'standard',
  list?: string,
  others: Readonly<Record<string, string>> = {},
): string {
  const headers = [url].flat().map((value) => ['Svc-Proxy-Url', value] as const);
  const raw = {
    method: 'GET',
    path: '/proxy',
    query: '',
    headers,
    body: secret(Buffer.alloc(0)),
    signal: new AbortController().signal,
  };
  const settings = { ...(list === undefined ? {} : { proxy_destinations: list }), ...others };
  try {
    return destinationOf(raw, { ...sender, tenant: { id: 't', plan, settings } }).href;
  } catch (error) {
    if (error instanceof DomainError) return `${error.status} ${Object.keys(error.errors ?? {}).join()}`;
    throw error;
  }
}

describe('SVC-PROXY-URL', () => {
  it.each([
    '',
    'api.test',
    '//api.test/',
    'ftp://api.test/',
    'file:///etc/passwd',
    'https://',
    'https://user@api.test/',
    'https://user:secret@api.test/',
    'https://api.test\\@evil.test/',
    'https://api.test/a b',
    'https://api.test/\t',
    'https://\u00e4pi.test/',
    'https://１２７.０.０.１/',
    'https://{{ card }}.test/',
    'https://api.test/{{ card }}',
    'https://api.test/%7B%7Bcard%7D%7D',
    'https://api.test/?a={{ card }}',
    `https://api.test/${'a'.repeat(2_000)}`,
    'https://api.test:70000/',
    'https://1.2.3.4.5/',
  ])('may not be %s', (url) => {
    expect(ask(url)).toBe('400 SVC-PROXY-URL');
  });

  it('must be present once', () => {
    expect(ask([])).toBe('400 SVC-PROXY-URL');
    expect(ask(['https://api.test/', 'https://evil.test/'])).toBe('400 SVC-PROXY-URL');
  });

  it('is used without its fragment', () => {
    expect(ask('https://API.test:443/v1?a=1#x')).toBe('https://api.test/v1?a=1');
  });
});

describe('the destinations of a tenant', () => {
  const list = 'https://api.test, https://*.example.com https://other.test:8443,http://10.0.0.1:8080';

  it.each([
    'https://api.test/',
    'https://API.TEST/x?y',
    'https://a.example.com/',
    'https://a.b.example.com/',
    'https://other.test:8443/',
    'http://10.0.0.1:8080/',
    'http://0xa000001:8080/',
  ])('cover %s', (url) => {
    expect(ask(url, 'enterprise', list)).toMatch(/^http/);
  });

  it.each([
    'http://api.test/',
    'https://api.test:444/',
    'https://api.test./',
    'https://api.test.evil.test/',
    'https://xapi.test/',
    'https://example.com/',
    'https://evilexample.com/',
    'https://other.test/',
    'https://10.0.0.1:8080/',
  ])('do not cover %s', (url) => {
    expect(ask(url, 'enterprise', list)).toBe('403 SVC-PROXY-URL');
    expect(ask(url, 'standard', list)).toBe('403 SVC-PROXY-URL');
  });

  it('are none on an enterprise plan without a list, and all on other plans', () => {
    expect(ask('https://api.test/', 'enterprise')).toBe('403 SVC-PROXY-URL');
    expect(ask('https://api.test/', 'enterprise', ' , ')).toBe('403 SVC-PROXY-URL');
    expect(ask('https://api.test/', 'standard')).toBe('https://api.test/');
  });

  it.each([
    'api.test',
    '*.example.com',
    'https://*',
    'https://*.',
    'https://a.*.com',
    'https://**.example.com',
    'https://*.10.0.0.1',
    'https://api.test/path',
    'https://api.test?x',
    'https://user@api.test',
    'ftp://api.test',
    'https://api.test https',
  ])('cannot be %s', (text) => {
    expect(parseDestinations(text)).toBeUndefined();
  });
});

describe('the destinations of an application', () => {
  const [api, other] = ['https://api.test', 'https://other.test'];
  const own = (list: string, id = 'caller') => ({ [`proxy_destinations.${id}`]: list });

  it('are those of its own list that the tenant allows', () => {
    for (const plan of ['standard', 'enterprise'] as const) {
      expect(ask(api, plan, `${api} ${other}`, own(api))).toBe(`${api}/`);
      expect(ask(other, plan, `${api} ${other}`, own(api))).toBe('403 SVC-PROXY-URL');
      expect(ask(other, plan, api, own(`${api} ${other}`))).toBe('403 SVC-PROXY-URL');
    }
    expect(ask(api, 'enterprise', undefined, own(api))).toBe('403 SVC-PROXY-URL');
    expect([ask(api, 'standard', undefined, own(api)), ask(other, 'standard', undefined, own(api))]).toEqual([
      `${api}/`,
      '403 SVC-PROXY-URL',
    ]);
  });

  it('are none when its list is empty', () => {
    expect(ask(api, 'standard', api, own(''))).toBe('403 SVC-PROXY-URL');
  });

  it('do not concern others', () => {
    expect(ask(api, 'standard', api, own('', 'another'))).toBe(`${api}/`);
  });

  it('of a session are within the list of the application that authorised it, too', () => {
    expect(ask(other, 'standard', undefined, own(api, 'authorizer'))).toBe('403 SVC-PROXY-URL');
  });

  it('of a request through a proxy are within the list of the application of the proxy, too', () => {
    const tenant = { id: 't', plan: 'standard', settings: own(api, 'of the proxy') } as const;
    const allowed = [api, other].map((url) =>
      isAllowed(new URL(url), { ...sender, tenant }, { applicationId: 'of the proxy' }),
    );
    expect(allowed).toEqual([true, false]);
  });
});

describe('the settings of a tenant', () => {
  const id = 'f1120019-b3c4-40ad-8ed5-9cc64b1132d8';
  const faultsOf = (settings: Readonly<Record<string, string>>) =>
    updateTenantBody.safeParse({ name: 't', settings }).error?.issues.map(({ path }) => path) ?? [];

  it('have lists of destinations only under the ids of applications', () => {
    expect(faultsOf({ [`proxy_destinations.${id}`]: 'https://api.test' })).toEqual([]);
    for (const [name, list] of [
      [`proxy_destinations.${id}`, 'api.test'],
      [`proxy_destinations.${id.toUpperCase()}`, ''],
      ['proxy_destinations.payments', ''],
      ['proxy_destinations', 'api.test'],
      [`PROXY_DESTINATIONS.${id}`, 'https://api.test'],
      [` proxy_destinations.${id}`, 'https://api.test'],
      ['proxy_destinations_', 'https://api.test'],
      ['proxy_destination', 'https://api.test'],
      ['proxy-destinations', 'https://api.test'],
      [`proxyDestinations.${id}`, 'https://api.test'],
    ] as const)
      expect(faultsOf({ [name]: list })).toEqual([['settings', name]]);
  });
});

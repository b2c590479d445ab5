import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { readConfig, StandaloneError } from '../src/index.ts';

describe('the configuration', () => {
  it('has defaults for everything, also for variables that are set to an empty text', () => {
    const defaults = {
      port: 8080,
      host: '127.0.0.1',
      dataDir: undefined,
      databaseUrl: undefined,
      rootKey: undefined,
      nextRootKey: undefined,
      transit: undefined,
      logLevel: 'info',
      egressAllow: [],
      runsPerTenant: 16,
      rateLimits: {},
      shownSettings: [],
    };
    expect(readConfig({})).toEqual(defaults);
    const empty = {
      VAULT_PORT: '',
      VAULT_HOST: '',
      VAULT_DATA_DIR: '',
      DATABASE_URL: '',
      VAULT_ROOT_KEY: '',
      VAULT_ROOT_KEY_NEXT: '',
      VAULT_ROOT_KEY_TRANSIT_URL: '',
      VAULT_ROOT_KEY_TRANSIT_TOKEN: '',
      VAULT_EGRESS_ALLOW: '',
      VAULT_RATE_LIMIT_PER_MINUTE: '',
    };
    expect(readConfig(empty)).toEqual(defaults);
  });

  it.each(['banana', '300.1.1.1', '10.0.0.0/99', '127.0.0.1;x'])('refuses to trust the proxy %s', (proxy) => {
    expect(() => readConfig({ VAULT_TRUST_PROXY: proxy })).toThrow(StandaloneError);
    expect(() => readConfig({ VAULT_TRUST_PROXY: proxy })).toThrow(
      /^VAULT_TRUST_PROXY must be a number of hops/,
    );
  });

  it.each([
    ['1', 1],
    ['loopback', 'loopback'],
    ['10.0.0.0/8, ::1', '10.0.0.0/8, ::1'],
  ])('trusts the proxy %s', (proxy, read) => {
    expect(readConfig({ VAULT_TRUST_PROXY: proxy }).trustProxy).toBe(read);
  });

  it('takes values from the environment', () => {
    const environment = {
      VAULT_PORT: '0',
      VAULT_HOST: '::',
      VAULT_DATA_DIR: 'data',
      DATABASE_URL: 'postgresql://vault@db.example/vault',
      VAULT_ROOT_KEY: 'key',
      VAULT_ROOT_KEY_NEXT: 'next',
      VAULT_EGRESS_ALLOW: '10.0.0.0/8, ::1',
      VAULT_SANDBOX_UIDS: '70000-70063',
      VAULT_REACTOR_RUNS_PER_TENANT: '40',
      VAULT_LOG_LEVEL: 'silent',
      VAULT_STORAGE_PATH: '/srv/postgres',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
    };
    const { shownSettings = [], ...config } = readConfig(environment);
    expect(config).toEqual({
      traces: { endpoint: 'http://collector:4318', share: 0.25 },
      storagePath: '/srv/postgres',
      port: 0,
      host: '::',
      dataDir: path.resolve('data'),
      databaseUrl: 'postgresql://vault@db.example/vault',
      rootKey: 'key',
      nextRootKey: 'next',
      transit: undefined,
      logLevel: 'silent',
      egressAllow: ['10.0.0.0/8', '::1'],
      sandboxAccounts: { first: 70_000, last: 70_063 },
      runsPerTenant: 40,
      rateLimits: {},
    });
    // The operator's console shows no key and no address with a password.
    const hidden = ['DATABASE_URL', 'VAULT_ROOT_KEY', 'VAULT_ROOT_KEY_NEXT', 'OTEL_EXPORTER_OTLP_ENDPOINT'];
    const shown = Object.entries(environment).filter(([name]) => !hidden.includes(name));
    expect(new Map(shownSettings.map(({ name, value }) => [name, value]))).toEqual(new Map(shown));
  });

  it.each([
    ['VAULT_PORT', ['http', '65536', '-1', '1e3', '80.5', ' 80', '0x50']],
    ['DATABASE_URL', ['mysql://localhost/vault', 'localhost', 'postgres://vault@:not a url']],
    ['VAULT_LOG_LEVEL', ['loud', 'INFO']],
    ['VAULT_STORAGE_PATH', ['postgres', './data']],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', ['collector:4318', 'http://:not a url']],
    ['OTEL_TRACES_SAMPLER_ARG', ['some', '1.5', '-7']],
    ['VAULT_SANDBOX_UIDS', ['70000', 'many', '0-100', '70000-70003', '70100-70000', '1-99999999999']],
    ['VAULT_REACTOR_RUNS_PER_TENANT', ['0', '49', '-7', 'all', '1.5', '1e1', ' 7']],
    ['VAULT_EGRESS_ALLOW', ['intranet', '10.0.0.0/33', '::1/129', '10.0.0.0/8/8', '10.0.0.0/x']],
  ])('names %s when it is wrong, without its value', (name, values) => {
    for (const value of values) {
      const read = () => readConfig({ [name]: value });
      expect(read).toThrow(StandaloneError);
      expect(read).toThrow(new RegExp(`^${name} (?!.*${value.replaceAll(/\W/g, '.')}).*$`));
    }
  });
});

describe('a root key in transit', () => {
  const transit = {
    VAULT_ROOT_KEY_TRANSIT_URL: 'https://bao.example:8200',
    VAULT_ROOT_KEY_TRANSIT_KEY: 'vault',
    VAULT_ROOT_KEY_TRANSIT_TOKEN: 'hvs.secret',
  };

  it('accepts every setting, with defaults for absent ones', () => {
    const options = { url: 'https://bao.example:8200', key: 'vault', token: 'hvs.secret' };
    expect(readConfig(transit).transit).toEqual(options);
    const rest = {
      VAULT_ROOT_KEY_TRANSIT_TOKEN: '',
      VAULT_ROOT_KEY_TRANSIT_TOKEN_FILE: 'token',
      VAULT_ROOT_KEY_TRANSIT_MOUNT: 'kms/transit',
      VAULT_ROOT_KEY_TRANSIT_NAMESPACE: 'team/a',
      VAULT_ROOT_KEY_TRANSIT_CA_FILE: '/etc/ca.pem',
    };
    expect(readConfig({ ...transit, ...rest }).transit).toEqual({
      ...options,
      token: undefined,
      tokenFile: path.resolve('token'),
      mount: 'kms/transit',
      namespace: 'team/a',
      caFile: '/etc/ca.pem',
    });
  });

  it.each([
    ['lacks a key', { VAULT_ROOT_KEY_TRANSIT_KEY: '' }, /needs VAULT_ROOT_KEY_TRANSIT_URL and .*_KEY$/],
    ['lacks a URL', { VAULT_ROOT_KEY_TRANSIT_URL: '' }, /needs VAULT_ROOT_KEY_TRANSIT_URL and .*_KEY$/],
    ['lacks a token', { VAULT_ROOT_KEY_TRANSIT_TOKEN: '' }, /needs either .*_TOKEN or .*_TOKEN_FILE$/],
    ['has two tokens', { VAULT_ROOT_KEY_TRANSIT_TOKEN_FILE: 'x' }, /needs either .*_TOKEN or .*_TOKEN_FILE$/],
    ['goes over http', { VAULT_ROOT_KEY_TRANSIT_URL: 'http://bao.example' }, /its URL must begin with https/],
    [
      'is not the only one',
      { VAULT_ROOT_KEY: 'key' },
      /are both set: to rotate .* VAULT_ROOT_KEY_NEXT to transit/,
    ],
    ['is not the only one', { VAULT_ROOT_KEY: 'key', VAULT_ROOT_KEY_NEXT: 'transit:b' }, /are both set/],
    [
      'is to be one of no name',
      { VAULT_ROOT_KEY_NEXT: 'transit:a/b' },
      /^VAULT_ROOT_KEY_NEXT: the name of its key/,
    ],
    [
      'is next only',
      {
        VAULT_ROOT_KEY_TRANSIT_URL: '',
        VAULT_ROOT_KEY_TRANSIT_KEY: '',
        VAULT_ROOT_KEY_TRANSIT_TOKEN: '',
        VAULT_ROOT_KEY_NEXT: 'transit',
      },
      /set VAULT_ROOT_KEY_TRANSIT_URL as well/,
    ],
  ])('that %s is reported in one line', (_name, environment, complaint) => {
    const read = () => readConfig({ ...transit, ...environment });
    expect(read).toThrow(StandaloneError);
    expect(read).toThrow(complaint);
    expect(read).toThrow(/^(?!.*hvs)[^\n]+$/);
  });
});

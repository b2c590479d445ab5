import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { readConfig, StandaloneError } from '../src/index.ts';

describe('the configuration', () => {
  it('has defaults for everything, also for variables that are set to nothing', () => {
    const defaults = {
      port: 8080,
      host: '127.0.0.1',
      dataDir: undefined,
      databaseUrl: undefined,
      rootKey: undefined,
      nextRootKey: undefined,
      logLevel: 'info',
      egressAllow: [],
      rateLimits: {},
    };
    expect(readConfig({})).toEqual(defaults);
    const empty = {
      VAULT_PORT: '',
      VAULT_HOST: '',
      VAULT_DATA_DIR: '',
      DATABASE_URL: '',
      VAULT_ROOT_KEY: '',
      VAULT_ROOT_KEY_NEXT: '',
      VAULT_EGRESS_ALLOW: '',
      VAULT_RATE_LIMIT_PER_MINUTE: '',
    };
    expect(readConfig(empty)).toEqual(defaults);
  });

  it('takes what the environment says', () => {
    const environment = {
      VAULT_PORT: '0',
      VAULT_HOST: '::',
      VAULT_DATA_DIR: 'data',
      DATABASE_URL: 'postgresql://vault@db.example/vault',
      VAULT_ROOT_KEY: 'key',
      VAULT_ROOT_KEY_NEXT: 'next',
      VAULT_EGRESS_ALLOW: '10.0.0.0/8, ::1',
      VAULT_LOG_LEVEL: 'silent',
    };
    expect(readConfig(environment)).toEqual({
      port: 0,
      host: '::',
      dataDir: path.resolve('data'),
      databaseUrl: 'postgresql://vault@db.example/vault',
      rootKey: 'key',
      nextRootKey: 'next',
      logLevel: 'silent',
      egressAllow: ['10.0.0.0/8', '::1'],
      rateLimits: {},
    });
  });

  it.each([
    ['VAULT_PORT', ['http', '65536', '-1', '1e3', '80.5', ' 80', '0x50']],
    ['DATABASE_URL', ['mysql://localhost/vault', 'localhost', 'postgres://vault@:not a url']],
    ['VAULT_LOG_LEVEL', ['loud', 'INFO']],
    ['VAULT_EGRESS_ALLOW', ['intranet', '10.0.0.0/33', '::1/129', '10.0.0.0/8/8', '10.0.0.0/x']],
  ])('names %s when it is wrong, without its value', (name, values) => {
    for (const value of values) {
      const read = () => readConfig({ [name]: value });
      expect(read).toThrow(StandaloneError);
      expect(read).toThrow(new RegExp(`^${name} (?!.*${value.replaceAll(/\W/g, '.')}).*$`));
    }
  });
});

import type { Application, LogEntry, Reactor, Token } from '@token-vault/contracts';
import {
  cardToken,
  type Client,
  createDataDirectory,
  removeDataDirectory,
  type StandaloneOptions,
  type StandaloneProcess,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { afterAll, beforeAll } from 'vitest';

/** An application and the client of its key. */
export interface Caller {
  readonly id: string;
  readonly path: string;
  readonly key: string;
  readonly client: Client;
}

interface ReactorFields {
  readonly application?: Pick<Caller, 'id'>;
  readonly configuration?: Readonly<Record<string, string>>;
}

/** The running vault of a test file. Works between `beforeAll` and `afterAll`. */
export interface TestVault {
  /** The client of the management key. */
  readonly manager: Client;
  readonly process: () => StandaloneProcess;
  /** Starts another process on the same data, once the first has ended. Clients go to the new one. */
  readonly start: () => Promise<void>;
  /** A private application, unless `body` says otherwise. */
  readonly makeApplication: (body: object) => Promise<Caller>;
  /** Gives the id of the reactor. */
  readonly makeReactor: (code: string, more?: ReactorFields) => Promise<string>;
  /** A reactor whose function has this body. */
  readonly makeFunction: (body: string, more?: ReactorFields) => Promise<string>;
  readonly setTenant: (settings: Readonly<Record<string, string>>) => Promise<void>;
  /** The first hundred entries that match, newest first. */
  readonly logOf: (filters: Readonly<Record<string, string>>) => Promise<readonly LogEntry[]>;
}

type VaultOptions = Omit<StandaloneOptions, 'dataDir'>;

/** Servers of the tests run on this machine. */
const localEgress = { VAULT_EGRESS_ALLOW: '127.0.0.0/8' };

/**
 * Starts a vault before the tests of the file and removes it after them. `options` may be a function of what an earlier
 * `beforeAll` has made.
 */
export function useVault(options: VaultOptions | (() => VaultOptions) = { env: localEgress }): TestVault {
  let dataDir: string;
  let process: StandaloneProcess;
  const start = async () => {
    const given = typeof options === 'function' ? options() : options;
    process = await startStandaloneProcess({ ...given, dataDir });
  };
  beforeAll(async () => {
    dataDir = await createDataDirectory();
    await start();
  });
  afterAll(() => removeDataDirectory(dataDir));
  return testVaultOf(() => process, start);
}

function testVaultOf(process: () => StandaloneProcess, start: () => Promise<void>): TestVault {
  const manager = clientOf(process);
  return {
    manager,
    process,
    start,
    makeApplication: (body) => makeApplicationBy(manager, body),
    makeReactor: (code, more) => makeReactorBy(manager, code, more),
    makeFunction: (body, more) => makeReactorBy(manager, functionOf(body), more),
    async setTenant(settings) {
      await manager.expect(200, 'PUT', '/tenants/self', { body: { name: 'tenant', settings } });
    },
    async logOf(filters) {
      const query = new URLSearchParams({ size: '100', ...filters }).toString();
      return (await manager.expect<{ data: LogEntry[] }>(200, 'GET', `/logs?${query}`)).body.data;
    },
  };
}

/** A client of the present process. Without a key it has the management key. */
const clientOf = (process: () => StandaloneProcess, key?: string): Client => ({
  request: (...args) =>
    process()
      .client(key)
      .request(...args),
  expect: (...args) =>
    process()
      .client(key)
      .expect(...args),
  withKey: (other) => clientOf(process, other),
});

export async function makeApplicationBy(manager: Client, body: object): Promise<Caller> {
  const whole = { name: 'a', type: 'private', ...body };
  const made = await manager.expect<Application>(201, 'POST', '/applications', { body: whole });
  const { id, key = '' } = made.body;
  return { id, path: `/applications/${id}`, key, client: manager.withKey(key) };
}

/** The body that creates or replaces a reactor. */
export const reactorOf = (code: string, { application, configuration = {} }: ReactorFields = {}) => ({
  name: 'r',
  configuration,
  code,
  ...(application && { application: { id: application.id } }),
});

export async function makeReactorBy(manager: Client, code: string, more?: ReactorFields) {
  const body = reactorOf(code, more);
  return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
}

/** Code whose function has this body. */
export const functionOf = (body: string): string =>
  `module.exports = async ({ args, svc, configuration }) => { ${body} }`;

/** Gives the id of the card. */
export async function makeCard(by: Client, number?: string): Promise<string> {
  return (await by.expect<Token>(201, 'POST', '/tokens', { body: cardToken(number) })).body.id;
}

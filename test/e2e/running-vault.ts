import { randomBytes } from 'node:crypto';
import { readConfig, startStandalone, type StandaloneConfig } from '@token-vault/standalone';
import {
  createDataDirectory,
  createTestDatabase,
  removeDataDirectory,
  startStandaloneProcess,
  testStack,
} from '@token-vault/test-support';

export interface Call {
  readonly method?: string;
  readonly path: string;
  readonly key?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Undefined unless the answer is JSON. */
  readonly body: unknown;
}

export interface RunningVault {
  readonly url: string;
  readonly databaseUrl: string;
  /** The key of the first tenant's management application. */
  readonly managementKey: string;
  call(call: Call): Promise<Reply>;
  /** As `call`. Fails unless the status is `status`. Gives the body. */
  must<Body = Record<string, unknown>>(status: number, call: Call): Promise<Body>;
  stop(): Promise<void>;
}

const mergePatch = 'application/merge-patch+json';

export type VaultChange = Pick<StandaloneConfig, 'rateLimits' | 'traces'>;

interface Started {
  readonly url: string;
  readonly managementKey: string;
  stop(): Promise<unknown>;
}

async function startHere(dataDir: string, databaseUrl: string, change: VaultChange): Promise<Started> {
  const standalone = await startStandalone({
    ...readConfig({}),
    port: 0,
    host: '127.0.0.1',
    dataDir,
    databaseUrl,
    rootKey: randomBytes(32).toString('hex'),
    logLevel: 'silent',
    ...change,
  });
  const managementKey = standalone.credentials?.management_key ?? '';
  return { url: standalone.url, managementKey, stop: () => standalone.stop() };
}

async function startProcesses(dataDir: string, databaseUrl: string, change: VaultChange): Promise<Started> {
  const { failuresPerMinute } = change.rateLimits ?? {};
  const vault = await startStandaloneProcess({
    dataDir,
    env: {
      DATABASE_URL: databaseUrl,
      VAULT_ROOT_KEY: randomBytes(32).toString('hex'),
      VAULT_LOG_LEVEL: 'silent',
      ...(failuresPerMinute === undefined
        ? {}
        : { VAULT_AUTH_FAILURES_PER_MINUTE: String(failuresPerMinute) }),
      ...(change.traces && { OTEL_EXPORTER_OTLP_ENDPOINT: change.traces.endpoint }),
    },
  });
  return { url: vault.url, managementKey: vault.credentials.management_key, stop: () => vault.stop() };
}

/**
 * A whole vault on a database of the test run's Postgres: in this process, unless VAULT_TEST_STACK names another
 * stack.
 */
export async function startVault(change: VaultChange = {}): Promise<RunningVault> {
  const database = await createTestDatabase();
  const dataDir = await createDataDirectory();
  const start = testStack === 'standalone' ? startHere : startProcesses;
  const started = await start(dataDir, database.url, change);
  const { url, managementKey } = started;

  async function call({ method = 'GET', path: at, key, body, headers = {} }: Call): Promise<Reply> {
    const response = await fetch(url + at, {
      method,
      headers: {
        ...(key === undefined ? {} : { 'SVC-API-KEY': key }),
        ...(body === undefined
          ? {}
          : { 'Content-Type': method === 'PATCH' ? mergePatch : 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') ?? false;
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: isJson ? (JSON.parse(text) as unknown) : undefined,
    };
  }

  return {
    url,
    databaseUrl: database.url,
    managementKey,
    call,
    async must<Body>(status: number, request: Call) {
      const reply = await call(request);
      if (reply.status !== status)
        throw new Error(`${request.method ?? 'GET'} ${request.path} answered ${reply.status}: ${reply.text}`);
      return reply.body as Body;
    },
    async stop() {
      await started.stop();
      await database.drop();
      await removeDataDirectory(dataDir);
    },
  };
}

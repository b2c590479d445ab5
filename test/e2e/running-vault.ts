import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readConfig, startStandalone, type RunningStandalone, type StandaloneConfig } from '@token-vault/standalone';
import { createTestDatabase } from '@token-vault/test-support';

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
  readonly standalone: RunningStandalone;
  readonly databaseUrl: string;
  /** Of the first tenant's management application. */
  readonly managementKey: string;
  call(call: Call): Promise<Reply>;
  /** As `call`, and fails unless the status is `status`; gives the body. */
  must<Body = Record<string, unknown>>(status: number, call: Call): Promise<Body>;
  stop(): Promise<void>;
}

const mergePatch = 'application/merge-patch+json';

/** A whole vault in this process, on a database of the test run's Postgres. */
export async function startVault(change: Partial<StandaloneConfig> = {}): Promise<RunningVault> {
  const database = await createTestDatabase();
  const dataDir = await mkdtemp(path.join(tmpdir(), 'vault-e2e-'));
  const standalone = await startStandalone({
    ...readConfig({}),
    port: 0,
    host: '127.0.0.1',
    dataDir,
    databaseUrl: database.url,
    rootKey: randomBytes(32).toString('hex'),
    logLevel: 'silent',
    ...change,
  });
  const managementKey = standalone.credentials?.management_key ?? '';

  async function call({ method = 'GET', path: at, key, body, headers = {} }: Call): Promise<Reply> {
    const response = await fetch(standalone.url + at, {
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
    standalone,
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
      await standalone.stop();
      await database.drop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';

export const root = path.resolve(import.meta.dirname, '../..');

export interface Server {
  readonly pid: number;
  readonly port: number;
  readonly url: string;
  readonly readyAfterMs: number;
  readonly managementKey: string;
  stop(): Promise<void>;
}

interface ServerOptions {
  readonly checkout?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** The program of the checkout: the vault in one process, or the stack of separate processes. */
  readonly program?: 'standalone/src/main.ts' | 'standalone/src/stack/main.ts';
}

/** Starts the vault of a checkout as its users do (fsync on) and waits for its first output. */
export async function startServer(
  dataDir: string,
  port: number,
  { checkout = root, env = {}, program = 'standalone/src/main.ts' }: ServerOptions = {},
): Promise<Server> {
  const begun = performance.now();
  const environment = {
    ...process.env,
    ...env,
    VAULT_DATA_DIR: dataDir,
    VAULT_PORT: String(port),
    VAULT_LOG_LEVEL: 'error',
  };
  const flags = JSON.parse(readFileSync(path.join(checkout, 'scripts/node-flags.json'), 'utf8')) as string[];
  const child: ChildProcess = spawn(process.execPath, [...flags, program], {
    cwd: checkout,
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise<void>((resolve, reject) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      if (chunk.toString().includes('vault ready')) resolve();
    });
    child.once('exit', () => reject(new Error('the vault did not start')));
  });
  const readyAfterMs = performance.now() - begun;
  const file = readFileSync(path.join(dataDir, 'credentials.json'), 'utf8');
  return {
    pid: child.pid ?? 0,
    port,
    url: `http://127.0.0.1:${port}`,
    readyAfterMs,
    managementKey: (JSON.parse(file) as { management_key: string }).management_key,
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', () => resolve());
        child.kill('SIGTERM');
      }),
  };
}

export function temporaryDirectory(): { path: string; remove(): void } {
  const directory = mkdtempSync(path.join(tmpdir(), 'vault-bench-'));
  // As root, Postgres runs under another account, which must be able to pass through.
  chmodSync(directory, 0o711);
  return { path: directory, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

/** Starts a stack of separate processes, one replica of each service, whose log is in a double of EventStoreDB of its own. */
export async function startStackOnDouble(
  dataDir: string,
  port: number,
  options: ServerOptions = {},
): Promise<Server> {
  const double = spawn(process.execPath, [path.join(root, 'test/doubles/eventstoredb/main.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [line] = (await once(createInterface({ input: double.stdout }), 'line')) as [string];
  const { connectionString } = JSON.parse(line) as { connectionString: string };
  const env = {
    ...options.env,
    EVENT_STORE: 'eventstoredb',
    EVENTSTOREDB_URL: connectionString,
    VAULT_STACK_REPLICAS: '1',
  };
  const server = await startServer(dataDir, port, {
    ...options,
    env,
    program: 'standalone/src/stack/main.ts',
  });
  return {
    ...server,
    stop: async () => {
      await server.stop();
      // The double ends with its input.
      double.stdin.end();
    },
  };
}

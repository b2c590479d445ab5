import { spawn } from 'node:child_process';
import { getPriority, setPriority } from 'node:os';
import type { Json } from '@token-vault/contracts';
import { createSandboxPool } from '../src/sandbox/index.ts';
import type { HostCalls, RunOutcome, SandboxPool, SandboxPoolOptions, Waiter } from '../src/sandbox/index.ts';

export const noRequests: HostCalls = {
  fetch: () => new Promise(() => {}),
};

export interface RunSettings {
  readonly tenantId?: string;
  readonly caller?: string;
  readonly args?: Json;
  readonly bodyText?: string;
  readonly configuration?: Record<string, string>;
  readonly timeoutMs?: number;
  readonly hostCalls?: HostCalls;
  readonly runId?: string;
  readonly waiter?: Waiter;
  readonly signal?: AbortSignal;
}

export interface TestPool {
  readonly pool: SandboxPool;
  run(code: string, settings?: RunSettings): Promise<RunOutcome>;
  close(): Promise<void>;
}

export async function createTestPool(options: SandboxPoolOptions = {}): Promise<TestPool> {
  const pool = await createSandboxPool(options);
  return {
    pool,
    run: (
      code,
      {
        tenantId = 'tenant',
        caller,
        args = {},
        bodyText,
        configuration = {},
        // As long as a busy machine needs.
        timeoutMs = 60_000,
        hostCalls = noRequests,
        runId,
        waiter,
        signal,
      } = {},
    ) =>
      pool.run({
        tenantId,
        caller,
        code,
        args,
        bodyText,
        configuration,
        timeoutMs,
        hostCalls,
        runId,
        waiter,
        hasSvc: hostCalls.svc !== undefined,
        ...(signal === undefined ? {} : { signal }),
      }),
    close: () => pool.close(),
  };
}

export const handler = (body: string): string => `module.exports = async function (req) { ${body} };`;

/** Whether this host allows to raise a priority. Not every root may. */
export function mayRaisePriority(): boolean {
  const child = spawn('sleep', ['60']);
  try {
    setPriority(child.pid ?? 0, Math.min(19, getPriority() + 10));
    setPriority(child.pid ?? 0, Math.min(19, getPriority() + 3));
    return true;
  } catch {
    return false;
  } finally {
    child.kill('SIGKILL');
  }
}

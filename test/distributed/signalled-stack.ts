import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  createClient,
  createDataDirectory,
  removeDataDirectory,
  startStandaloneProcess,
  waitUntil,
  type Client,
  type StandaloneProcess,
} from '@token-vault/test-support';

interface Member {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  readonly leads: readonly string[];
}

/** The stack of separate processes with the log in Postgres. Tests send signals to its processes. */
export interface SignalledStack {
  readonly vault: StandaloneProcess;
  /** The present content of `stack.json`. */
  members(): Promise<readonly Member[]>;
  member(name: string): Promise<Member>;
  /** A client of one process, without the gateway. */
  clientOf(name: string, key: string): Promise<Client>;
  /** Resolves when another process has replaced this one and is ready. */
  replaced(before: Member): Promise<void>;
  /** Resolves when each service has reported that it is ready. */
  allReady(): Promise<void>;
  /** Kills Postgres, and each one that is started after it, until the time is over. */
  keepPostgresAway(ms: number): Promise<void>;
  remove(): Promise<void>;
}

const replacedWithinMs = 60_000;

const isReady = async ({ port }: Member): Promise<boolean> =>
  (await fetch(`http://127.0.0.1:${port}/health/ready`)).ok;

export async function startSignalledStack(env: Readonly<Record<string, string>>): Promise<SignalledStack> {
  const dataDir = await createDataDirectory();
  const vault = await startStandaloneProcess({
    dataDir,
    stack: 'processes',
    env: { VAULT_RATE_LIMIT_PER_MINUTE: '0', VAULT_LOG_LEVEL: 'warn', ...env },
  });
  const members = async () =>
    JSON.parse(await readFile(path.join(dataDir, 'stack.json'), 'utf8')) as readonly Member[];
  async function member(name: string): Promise<Member> {
    const found = (await members()).find((each) => each.name === name);
    if (!found) throw new Error(`there is no ${name}`);
    return found;
  }
  return {
    vault,
    members,
    member,
    clientOf: async (name, key) => createClient(`http://127.0.0.1:${(await member(name)).port}`, key),
    async replaced(before) {
      const isThere = async () => {
        const now = await member(before.name).catch(() => before);
        return now.pid > 0 && now.pid !== before.pid && isReady(now);
      };
      await waitUntil(() => isThere().catch(() => false), {
        timeoutMs: replacedWithinMs,
        what: `another ${before.name}`,
      });
    },
    async allReady() {
      const services = (await members()).filter(({ name }) => !['postgres', 'gateway'].includes(name));
      for (const service of services)
        await waitUntil(() => isReady(service).catch(() => false), {
          timeoutMs: replacedWithinMs,
          what: service.name,
        });
    },
    async keepPostgresAway(ms) {
      const until = performance.now() + ms;
      for (let killed = 0; performance.now() < until; await delay(10)) {
        const pid = await vault.postmasterPid().catch(() => killed);
        if (!(pid > 0) || pid === killed) continue;
        process.kill(pid, 'SIGKILL');
        killed = pid;
      }
    },
    remove: () => removeDataDirectory(dataDir),
  };
}

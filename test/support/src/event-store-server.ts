import { freePorts } from '@token-vault/process';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, cp, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { pinnedNode, programs } from './programs.ts';
import { testDirectory } from './test-directory.ts';

const root = path.resolve(import.meta.dirname, '../../..');

/** The double of EventStoreDB as a process, or a server in its place. Its log lives across restarts of the vault. */
export interface EventStoreDouble {
  readonly connectionString: string;
  /**
   * A command, or faults as JSON: see test/doubles/eventstoredb/main.ts. A server of EVENTSTOREDB_SERVER obeys `down`, `up`, `save PLACE` and
   * `load PLACE`.
   */
  tell(command: string): Promise<void>;
  stop(): Promise<void>;
}

/** False where a server takes the place of the double: it cannot be told to lose an answer, or to alter an event. */
export const hasDouble = !process.env['EVENTSTOREDB_SERVER'] && !process.env['EVENTSTOREDB_URL'];

/** For the names of tests that are skipped there. */
export const lackOfDouble = hasDouble
  ? ''
  : ' (skipped: a server takes the place of the double of EventStoreDB)';

/** With EVENTSTOREDB_SERVER, the server that this program starts instead; with EVENTSTOREDB_URL, the one that runs there. */
export function startEventStoreDouble(): Promise<EventStoreDouble> {
  const { EVENTSTOREDB_SERVER: program, EVENTSTOREDB_URL: connectionString } = process.env;
  if (connectionString) {
    const tell = (command: string) =>
      Promise.reject(new Error(`the server of EVENTSTOREDB_URL cannot be told ${command}`));
    return Promise.resolve({ connectionString, tell, stop: async () => undefined });
  }
  return program ? startServerOf(path.resolve(root, program)) : startDouble();
}

let started = 0;

async function startServerOf(program: string): Promise<EventStoreDouble> {
  // The prefix by which the next run finds directories that a killed run left.
  const directory = await mkdtemp(path.join(testDirectory, `token-vault-test-${process.pid}-esdb-`));
  const name = `${process.pid}-${(started += 1)}`;
  const [port = 0] = await freePorts(['127.0.0.1']);
  const run = async (...args: string[]) => void (await promisify(execFile)(program, args));
  let isUp = false;
  const up = async () => {
    await run('start', name, String(port), directory);
    isUp = true;
  };
  const down = async (how: 'kill' | 'stop') => {
    if (isUp) await run(how, name);
    isUp = false;
  };
  await up();
  return {
    connectionString: `esdb://127.0.0.1:${port}?tls=false`,
    async tell(command) {
      const [verb, place = ''] = command.split(' ');
      if (verb === 'up') await up();
      else if (verb === 'down') await down('kill');
      else if (verb === 'save') await copyServer(directory, place);
      else if (verb === 'load') {
        await down('kill');
        await rm(directory, { recursive: true, force: true });
        await restoreServer(place, directory);
        await up();
      } else throw new Error(`a server of EVENTSTOREDB_SERVER cannot be told ${command}`);
    },
    async stop() {
      await down('stop');
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Copies the files of a running server as its manual says: the checkpoints first, so that none is newer than the data. */
async function copyServer(from: string, to: string): Promise<void> {
  for (const isFirst of [true, false]) {
    const filter = async (file: string) =>
      (await stat(file)).isDirectory() || file.endsWith('.chk') === isFirst;
    await cp(from, to, { recursive: true, filter });
  }
}

/** The manual again: the server cuts off what is behind this checkpoint, which may be half written. */
async function restoreServer(from: string, to: string): Promise<void> {
  await cp(from, to, { recursive: true });
  for (const file of await readdir(to, { recursive: true }))
    if (path.basename(file) === 'chaser.chk')
      await copyFile(path.join(to, file), path.join(to, path.dirname(file), 'truncate.chk'));
}

async function startDouble(): Promise<EventStoreDouble> {
  const child = spawn(pinnedNode, [...programs, 'test/doubles/eventstoredb/main.ts'], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const said = async () => JSON.parse((await lines.next()).value as string) as Record<string, unknown>;
  const { connectionString } = await said();
  return {
    connectionString: String(connectionString),
    async tell(command) {
      child.stdin.write(`${command}\n`);
      const answer = await said();
      if (answer['done'] !== command) throw new Error(`the double says ${JSON.stringify(answer)}`);
    },
    stop: () => ended(child),
  };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}

/** By the data directory of their vault. */
const doubles = new Map<string, Promise<EventStoreDouble>>();

export function eventStoreDoubleOf(dataDir: string): Promise<EventStoreDouble> {
  const double = doubles.get(dataDir) ?? startEventStoreDouble();
  doubles.set(dataDir, double);
  return double;
}

/** Copies the log as an operator copies the files of its server. Does nothing when the log is in Postgres, where a backup has it. */
export async function saveLog(dataDir: string, place: string): Promise<void> {
  await (await doubles.get(dataDir))?.tell(`save ${place}`);
}

export async function stopEventStoreOf(dataDir: string): Promise<void> {
  const double = doubles.get(dataDir);
  doubles.delete(dataDir);
  await double?.then((it) => it.stop());
}

import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../../..');
const node = path.join(root, 'node_modules/node/bin/node');

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Command {
  readonly ended: Promise<Ended>;
  /** The text on stderr so far. */
  stderr(): string;
  signal(name: NodeJS.Signals): void;
}

/** `npm run vault -- <args>` without npm, in a process of its own. */
export function startCommand(
  dataDir: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Command {
  const { PATH = '', HOME = '/', TMPDIR = tmpdir(), NODE_COMPILE_CACHE = '' } = process.env;
  const child = spawn(node, ['--no-node-snapshot', 'standalone/src/cli.ts', ...args], {
    cwd: root,
    env: { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE, VAULT_DATA_DIR: dataDir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
  return { ended, stderr: () => stderr, signal: (name) => void child.kill(name) };
}

export const runCommand = (dataDir: string, args: readonly string[], env?: Record<string, string>) =>
  startCommand(dataDir, args, env).ended;

/** The output of a command that succeeds. @throws Error with its stderr otherwise. */
export async function resultOf(dataDir: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCommand(dataDir, args);
  if (code !== 0) throw new Error(`vault ${args.join(' ')} ended with ${code}: ${stderr}`);
  return stdout;
}

/** The last line on stderr of a command that fails. @throws Error when it succeeds. */
export async function refusalOf(dataDir: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCommand(dataDir, args);
  if (code !== 1) throw new Error(`vault ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
  return stderr.trim().split('\n').at(-1) ?? '';
}

/** The value that a command printed as `<label>: <value>`. */
export function printed(output: string, label: string): string {
  const value = new RegExp(`^${label}: (\\S+)$`, 'm').exec(output)?.[1];
  if (value === undefined) throw new Error(`no "${label}" in: ${output}`);
  return value;
}

import type { Program } from '@token-vault/standalone/cli';
import { spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pinnedNode, programs } from './programs.ts';
import { logOf } from './test-stack.ts';

const root = path.resolve(import.meta.dirname, '../../..');

type Environment = Record<string, string>;

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
export function startCommand(dataDir: string, args: readonly string[], env: Environment = {}): Command {
  const { PATH = '', HOME = '/', TMPDIR = tmpdir(), NODE_COMPILE_CACHE = '' } = process.env;
  const child = spawn(pinnedNode, [...programs, 'standalone/src/cli.ts', ...args], {
    cwd: root,
    env: { PATH, HOME, TMPDIR, NODE_COMPILE_CACHE, VAULT_DATA_DIR: dataDir, ...logOf(dataDir), ...env },
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

/**
 * Runs a command without a process of its own, which would take a second of the processor to start. A command that gives up root for the
 * account of the data directory needs a process: it cannot become root again.
 */
export async function runCommand(
  dataDir: string,
  args: readonly string[],
  env: Environment = {},
): Promise<Ended> {
  return env['VAULT_ACCOUNT'] === undefined && (await isOwn(dataDir))
    ? runHere(args, { VAULT_DATA_DIR: dataDir, ...logOf(dataDir), ...env })
    : startCommand(dataDir, args, env).ended;
}

const isOwn = (place: string): Promise<boolean> =>
  stat(place).then(
    ({ uid }) => uid === process.getuid?.(),
    () => true,
  );

async function runHere(args: readonly string[], environment: Environment): Promise<Ended> {
  const { CommanderError, complaintOf, createProgram } = await import('@token-vault/standalone/cli');
  let [stdout, stderr] = ['', ''];
  const writeOut = (text: string) => void (stdout += text);
  const writeErr = (text: string) => void (stderr += text);
  const print = (text: string) => writeOut(`${text}\n`);
  const program = createProgram({
    environment,
    print,
    printDrained: async (text) => print(text),
    note: (text) => writeErr(`${text}\n`),
    rewrite: undefined,
    interrupted: new AbortController().signal,
  });
  for (const command of withCommandsOf(program))
    command.exitOverride().configureOutput({ writeOut, writeErr });
  try {
    await program.parseAsync(args, { from: 'user' });
    return { code: 0, stdout, stderr };
  } catch (error) {
    // The parser has written its message already.
    if (error instanceof CommanderError) return { code: error.exitCode, stdout, stderr };
    writeErr(`vault: ${complaintOf(error)}\n`);
    return { code: 1, stdout, stderr };
  }
}

const withCommandsOf = (command: Program): Program[] => [
  command,
  ...command.commands.flatMap(withCommandsOf),
];

/** The output of a command that succeeds. @throws Error with its output otherwise. */
export async function resultOf(dataDir: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCommand(dataDir, args);
  if (code !== 0) throw new Error(`vault ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
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

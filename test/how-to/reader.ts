import { createDataDirectory, removeDataDirectory } from '@token-vault/test-support';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { scriptOf } from './shell-blocks.ts';

const root = path.resolve(import.meta.dirname, '../..');
export const howToDirectory = path.join(root, 'docs/how-to');

export const readHowTo = (name: string): Promise<string> =>
  readFile(path.join(howToDirectory, `${name}.md`), 'utf8');

export interface Followed {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Of the shell when it ended. @throws Error when the document does not set it */
  readonly variable: (name: string) => string;
}

/** Somebody with a checkout, a shell and a home directory of his own. */
export interface Reader {
  readonly home: string;
  /**
   * Runs the blocks of `docs/how-to/README.md`, then those of the page, as they are written, in one shell.
   * @param environment what the pages tell the reader to set
   * @param before as `scriptOf`
   */
  follow(
    page: string,
    environment: Readonly<Record<string, string>>,
    before?: Readonly<Record<string, string>>,
  ): Promise<Followed>;
  /** Ends what the shell has left running, and removes its files. */
  leave(): Promise<void>;
}

const longestMs = 150_000;

/** Written after the last command, so that a test can look at what the page made. */
const epilogue = `
{ set +u; for name in $(compgen -v); do printf '%s=%s\\0' "$name" "\${!name}"; done; } >&3
`;

export async function createReader(): Promise<Reader> {
  // Data directories are made in it: the account of Postgres must be able to pass through.
  const home = await createDataDirectory();
  const groups: number[] = [];

  const follow: Reader['follow'] = async (page, environment, before = {}) => {
    // One shell for both, as for a reader who goes from one page to the next.
    const scripts = [
      scriptOf(await readHowTo('README')),
      scriptOf(await readHowTo(page), { before }),
      epilogue,
    ];
    const { PATH = '' } = process.env;
    const shell = spawn('bash', ['-c', scripts.join('\n')], {
      cwd: root,
      env: { PATH, HOME: home, ...environment },
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      // A group of its own, so that what it starts in the background can be ended with it.
      detached: true,
      timeout: longestMs,
    });
    if (shell.pid !== undefined) groups.push(shell.pid);
    const [, ...streams] = shell.stdio as unknown as readonly NodeJS.ReadableStream[];
    const outputs = Promise.all(streams.map((stream) => text(stream)));
    const code = await new Promise<number | null>((resolve, reject) => {
      shell.on('error', reject).on('exit', resolve);
    });
    if (code !== 0) endGroup(shell.pid);
    const [stdout = '', stderr = '', found = ''] = await outputs;
    const values = new Map(
      found.split('\0').map((line) => [line.split('=', 1)[0], line.replace(/^[^=]*=/, '')]),
    );
    return {
      code,
      stdout,
      stderr,
      variable(name) {
        const value = values.get(name);
        if (value === undefined) throw new Error(`${page}.md does not set ${name}`);
        return value;
      },
    };
  };

  return {
    home,
    follow,
    async leave() {
      for (const group of groups) endGroup(group);
      await removeDataDirectory(home);
    },
  };
}

/** By its id, which nobody else has while one of its processes lives. */
function endGroup(group: number | undefined): void {
  if (group === undefined) return;
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // All of it has ended.
  }
}

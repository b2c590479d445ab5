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

interface Followed {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The value of the variable when the shell ended. @throws Error when the document does not set it */
  readonly variable: (name: string) => string;
}

/** A reader of the pages, with a checkout, a shell and a home directory. */
export interface Reader {
  readonly home: string;
  /**
   * Runs the blocks of `docs/how-to/README.md`, then those of the page, as they are written, in one shell.
   * @param environment the variables that the pages tell the reader to set
   * @param before as `scriptOf`
   */
  follow(
    page: string,
    environment: Readonly<Record<string, string>>,
    before?: Readonly<Record<string, string>>,
  ): Promise<Followed>;
  /** Ends the processes that the shell has left running, and removes its files. */
  leave(): Promise<void>;
}

const longestMs = 150_000;

/** Written after the last command, so that a test can read the variables of the page. */
const epilogue = `
{ set +u; for name in $(compgen -v); do printf '%s=%s\\0' "$name" "\${!name}"; done; } >&3
`;

export async function createReader(): Promise<Reader> {
  // Data directories are made in it, so the account of Postgres must be able to pass through.
  const home = await createDataDirectory();
  const groups: number[] = [];

  const follow: Reader['follow'] = async (page, environment, before = {}) => {
    // One shell for all pages, as for a reader who follows one page after the other.
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
      // A process group of its own, so that its background processes can be ended with it.
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

/** By its id, which is not used again while one of its processes lives. */
function endGroup(group: number | undefined): void {
  if (group === undefined) return;
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // All processes of the group have ended.
  }
}

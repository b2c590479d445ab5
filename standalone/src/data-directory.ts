import { access, chmod, constants, mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { StandaloneError } from './config.ts';
import { defaultDataDirectory } from './postgres/index.ts';

export interface DataDirectory {
  readonly root: string;
  readonly postgres: string;
  readonly rootKeyFile: string;
  readonly credentialsFile: string;
}

/**
 * The directory everything of this vault lives in, made when absent. Files with secrets in it are 0600 and that of Postgres
 * is 0700; it cannot itself be 0700, because as root Postgres runs under another account and must pass through it.
 * @throws StandaloneError when it cannot be written.
 */
export async function openDataDirectory(configured: string | undefined): Promise<DataDirectory> {
  const root = configured ?? (await defaultDataDirectory(path.resolve('.vault')));
  try {
    await makeDirectories(root);
    if (configured === undefined) await admitPostgres(root);
    await access(root, constants.W_OK | constants.X_OK);
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? 'unknown';
    throw new StandaloneError(`cannot write to the data directory ${root} (${reason}); set VAULT_DATA_DIR`, {
      cause,
    });
  }
  return placesIn(root);
}

export function placesIn(root: string): DataDirectory {
  return {
    root,
    postgres: path.join(root, 'postgres'),
    rootKeyFile: path.join(root, 'root.key'),
    credentialsFile: path.join(root, 'credentials.json'),
  };
}

/** The owner may do everything, others may pass through. */
const passable = 0o711;

/** Node's own recursive mkdir never comes back from a parent that exists and answers ENOENT, as /proc does. */
async function makeDirectories(directory: string): Promise<void> {
  const isThere = async (place: string) => (await stat(place).catch(() => undefined))?.isDirectory() === true;
  if (await isThere(directory)) return;
  const parent = path.dirname(directory);
  if (parent !== directory) await makeDirectories(parent);
  try {
    await mkdir(directory);
    // Not by the mode of mkdir, which the umask cuts: root often has 077.
    await chmod(directory, passable);
  } catch (error) {
    if (!(await isThere(directory))) throw error;
  }
}

/** A default directory belongs to the vault. An earlier start under a strict umask must not keep the account of Postgres out. */
async function admitPostgres(directory: string): Promise<void> {
  const { mode, uid } = await stat(directory);
  if (uid === process.getuid?.() && (mode & passable) !== passable) await chmod(directory, mode | passable);
}

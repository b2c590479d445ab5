import { access, chmod, constants, mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { StandaloneError } from './config.ts';
import { defaultDataDirectory } from '@token-vault/embedded-postgres';

export interface DataDirectory {
  readonly root: string;
  readonly postgres: string;
  readonly rootKeyFile: string;
  readonly credentialsFile: string;
  /** The last checkpoint of each tenant, which the sealer holds the log against. */
  readonly checkpointsFile: string;
}

/**
 * The directory of all files of this vault. It is made when absent. Files with secrets have the mode 0600, the
 * directory of Postgres 0700. The data directory itself cannot have 0700: under root, Postgres runs as another
 * account and must pass through it.
 * @throws StandaloneError when it cannot be written.
 */
export async function makeDataDirectory(configured: string | undefined): Promise<DataDirectory> {
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
    checkpointsFile: path.join(root, 'last-checkpoints'),
  };
}

/** The owner has all rights, others may pass through. */
const passable = 0o711;

/** The recursive mkdir of Node never returns when an existing parent answers ENOENT, as /proc does. */
async function makeDirectories(directory: string): Promise<void> {
  const isThere = async (place: string) => (await stat(place).catch(() => undefined))?.isDirectory() === true;
  if (await isThere(directory)) return;
  const parent = path.dirname(directory);
  if (parent !== directory) await makeDirectories(parent);
  try {
    await mkdir(directory);
    // The mode is not given to mkdir, because the umask reduces it: root often has 077.
    await chmod(directory, passable);
  } catch (error) {
    if (!(await isThere(directory))) throw error;
  }
}

/**
 * The default directory belongs to the vault. An earlier start under a strict umask may have closed it to the account
 * of Postgres.
 */
async function admitPostgres(directory: string): Promise<void> {
  const { mode, uid } = await stat(directory);
  if (uid === process.getuid?.() && (mode & passable) !== passable) await chmod(directory, mode | passable);
}

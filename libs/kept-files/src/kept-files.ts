import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { packagesOf } from './packages.ts';

type Files = ReadonlyMap<string, Buffer>;

export interface Made {
  /** By their paths in the result. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** The source files of the result, as absolute paths. */
  readonly inputs: readonly string[];
}

export interface Recipe {
  /** The folder below `.cache/`. */
  readonly name: string;
  /** The root of the repository, whose lock file names the exact version of each package. */
  readonly repository: string;
  /** The files and folders that the result is made of, besides packages; absolute paths. */
  readonly sources: readonly string[];
  make(): Promise<Made>;
}

/**
 * The files of a recipe, made once and then read from `.cache/<name>/<hash of the sources and of the lock file>`. The packages that it was
 * made from are not needed after that. `packages.json` beside the files names them for the bill of materials of an image.
 *
 * @throws Error when an input is neither a package nor below the sources: a change of it would not be seen
 */
export async function keptFiles(recipe: Recipe): Promise<Files> {
  const directory = path.join(recipe.repository, '.cache', recipe.name, await hashOf(recipe));
  const kept = await readFiles(path.join(directory, 'files'));
  if (kept.size > 0) return kept;
  const { files, inputs } = await inTurn(() => recipe.make());
  requireSources(inputs, recipe);
  const all = new Map([...files].map(([name, content]) => [name, Buffer.from(content)] as const));
  await keep(directory, all, inputs);
  return all;
}

let last: Promise<unknown> = Promise.resolve();

/** One after another in a process: esbuild is one service for all of it, which each bundler stops at its end. */
function inTurn<Result>(make: () => Promise<Result>): Promise<Result> {
  const made = last.then(make);
  last = made.catch(() => undefined);
  return made;
}

async function filesBelow(source: string): Promise<string[]> {
  if ((await stat(source)).isFile()) return [source];
  const entries = await readdir(source, { recursive: true, withFileTypes: true });
  return entries.filter((each) => each.isFile()).map((each) => path.join(each.parentPath, each.name));
}

async function hashOf({ repository, sources }: Recipe): Promise<string> {
  const files = (await Promise.all(sources.map(filesBelow))).flat().sort();
  const hash = createHash('sha256');
  for (const file of [...files, path.join(repository, 'pnpm-lock.yaml')]) {
    const content = await readFile(file);
    hash.update(`${path.relative(repository, file)} ${content.length}\n`).update(content);
  }
  return hash.digest('hex').slice(0, 32);
}

function requireSources(inputs: readonly string[], { name, sources }: Recipe): void {
  const isSource = (file: string) =>
    sources.some((source) => file === source || file.startsWith(source + path.sep));
  for (const file of inputs)
    if (!file.includes('/node_modules/') && !isSource(file))
      throw new Error(`${file} goes into ${name}, but is not among its sources`);
}

async function readFiles(directory: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = new Map<string, Buffer>();
  for (const entry of entries.filter((each) => each.isFile())) {
    const file = path.join(entry.parentPath, entry.name);
    files.set(path.relative(directory, file), await readFile(file));
  }
  return files;
}

/** A directory appears whole or not at all. Where it cannot be written, the files live in memory only. */
async function keep(directory: string, files: Files, inputs: readonly string[]): Promise<void> {
  const draft = `${directory}.${randomUUID()}`;
  try {
    for (const [name, content] of files) {
      const file = path.join(draft, 'files', name);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, content);
    }
    await writeFile(path.join(draft, 'packages.json'), JSON.stringify(await packagesOf(inputs)));
    await rename(draft, directory);
  } catch {
    await rm(draft, { recursive: true, force: true }).catch(() => undefined);
  }
}

import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** A file of the console as HTTP serves it. */
export interface ConsoleFile {
  readonly body: Buffer;
  readonly type: string;
  readonly etag: string;
}

const here = import.meta.dirname;
const repository = path.dirname(here);
const cache = path.join(repository, '.cache/console');
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
};

let made: Promise<ReadonlyMap<string, ConsoleFile>> | undefined;

/**
 * The files of the console by their paths below `/console/`: `index.html` and assets, whose names hold the hash of their content. They are
 * bundled once and kept below `.cache/` under the hash of the sources and of the lock file.
 */
export function consoleFiles(): Promise<ReadonlyMap<string, ConsoleFile>> {
  made ??= readOrMake().catch((error: unknown) => {
    made = undefined;
    throw error;
  });
  return made;
}

async function readOrMake(): Promise<ReadonlyMap<string, ConsoleFile>> {
  const directory = path.join(cache, await hashOfSources());
  const kept = await readKept(directory);
  if (kept.size > 0) return kept;
  const files = await bundle();
  await keep(directory, files);
  return files;
}

/** Everything that the bundle depends on. The lock file names the exact version of each package. */
async function hashOfSources(): Promise<string> {
  const entries = await readdir(path.join(here, 'src'), { recursive: true, withFileTypes: true });
  const sources = entries
    .filter((each) => each.isFile())
    .map((each) => path.join(each.parentPath, each.name));
  const lock = path.join(repository, 'pnpm-lock.yaml');
  const hash = createHash('sha256');
  for (const file of [...sources.sort(), import.meta.filename, lock]) {
    // A container image has no lock file, and no cache of an older release either.
    const content = await readFile(file).catch(() => Buffer.alloc(0));
    hash.update(`${path.relative(repository, file)} ${content.length}\n`).update(content);
  }
  return hash.digest('hex').slice(0, 32);
}

async function readKept(directory: string): Promise<Map<string, ConsoleFile>> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = new Map<string, ConsoleFile>();
  for (const entry of entries.filter((each) => each.isFile())) {
    const file = path.join(entry.parentPath, entry.name);
    files.set(path.relative(directory, file), fileOf(entry.name, await readFile(file)));
  }
  return files;
}

/** A directory appears whole or not at all. Where it cannot be written, the bundle lives in memory only. */
async function keep(directory: string, files: ReadonlyMap<string, ConsoleFile>): Promise<void> {
  const draft = `${directory}.${randomUUID()}`;
  try {
    for (const [name, { body }] of files) {
      await mkdir(path.dirname(path.join(draft, name)), { recursive: true });
      await writeFile(path.join(draft, name), body);
    }
    await rename(draft, directory);
  } catch {
    await rm(draft, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function bundle(): Promise<ReadonlyMap<string, ConsoleFile>> {
  const esbuild = await import('esbuild');
  try {
    const { outputFiles } = await esbuild.build({
      entryPoints: [path.join(here, 'src/main.tsx')],
      outdir: '/assets',
      entryNames: '[name]-[hash]',
      chunkNames: '[name]-[hash]',
      bundle: true,
      splitting: true,
      format: 'esm',
      platform: 'browser',
      target: 'es2023',
      jsx: 'automatic',
      minify: true,
      write: false,
      legalComments: 'none',
      logLevel: 'silent',
      define: { 'process.env.NODE_ENV': '"production"' },
    });
    const assets = outputFiles.map(
      ({ path: name, contents }) => [name.slice(1), Buffer.from(contents)] as const,
    );
    const named = (extension: string) =>
      assets.find(([name]) => name.startsWith('assets/main-') && name.endsWith(extension))?.[0] ?? '';
    const page = Buffer.from(pageOf(named('.js'), named('.css')));
    return new Map(
      [...assets, ['index.html', page] as const].map(([name, body]) => [name, fileOf(name, body)]),
    );
  } finally {
    // esbuild keeps a process of its own running.
    await esbuild.stop();
  }
}

function fileOf(name: string, body: Buffer): ConsoleFile {
  const digest = createHash('sha256').update(body).digest('base64url').slice(0, 22);
  return { body, type: types[path.extname(name)] ?? 'application/octet-stream', etag: `"${digest}"` };
}

const pageOf = (script: string, style: string): string => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>Token vault</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="${style}" />
    <script type="module" src="${script}"></script>
  </head>
  <body>
    <div id="root"></div>
  </body>
</html>
`;

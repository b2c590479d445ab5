import { createHash } from 'node:crypto';
import path from 'node:path';
import { keptFiles, type Made } from '@token-vault/kept-files';

/** A file of the console as HTTP serves it. */
export interface ConsoleFile {
  readonly body: Buffer;
  readonly type: string;
  readonly etag: string;
}

const here = import.meta.dirname;
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
};

let made: Promise<ReadonlyMap<string, ConsoleFile>> | undefined;

/**
 * The files of the console by their paths below `/console/`: `index.html` and assets, whose names hold the hash of their content. They are
 * bundled once and kept below `.cache/`.
 */
export function consoleFiles(): Promise<ReadonlyMap<string, ConsoleFile>> {
  made ??= readOrMake().catch((error: unknown) => {
    made = undefined;
    throw error;
  });
  return made;
}

async function readOrMake(): Promise<ReadonlyMap<string, ConsoleFile>> {
  const repository = path.dirname(here);
  const sources = [
    path.join(here, 'src'),
    import.meta.filename,
    path.join(repository, 'contracts/src/names.ts'),
  ];
  const files = await keptFiles({ name: 'console', repository, sources, make: bundle });
  return new Map([...files].map(([name, body]) => [name, fileOf(name, body)]));
}

async function bundle(): Promise<Made> {
  const esbuild = await import('esbuild');
  try {
    const { outputFiles, metafile } = await esbuild.build({
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
      metafile: true,
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
    return {
      files: new Map([...assets, ['index.html', page] as const]),
      inputs: Object.keys(metafile.inputs).map((file) => path.resolve(file)),
    };
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

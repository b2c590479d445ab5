// Puts each program that tests start into one file below .cache/programs, made of the same sources: a start then loads about twenty files in
// place of 1,600, which is a quarter of its processor time. Prints a file for VAULT_TEST_PROGRAMS (CONTRIBUTING.md).
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const root = path.dirname(import.meta.dirname);
const output = path.join(root, '.cache/programs');
const services = ['command-service', 'projectors', 'proxy', 'query-service', 'reactor-runner'];
const programs = [
  ...['main', 'cli', 'stack/main'].map((name) => `standalone/src/${name}`),
  ...services.map((name) => `processes/src/${name}`),
  'gateway/src/main',
  'test/doubles/eventstoredb/main',
];

/** The sources find files beside them, as before. */
const ownPlaces = {
  name: 'own-places',
  setup: ({ onLoad }) =>
    onLoad({ filter: /\.ts$/ }, async ({ path: file }) => {
      const text = await readFile(file, 'utf8');
      const places = { dirname: path.dirname(file), filename: file, url: pathToFileURL(file).href };
      const contents = text.replaceAll(/import\.meta\.(dirname|filename|url)\b/g, (_all, name) =>
        JSON.stringify(places[name]),
      );
      return { loader: 'ts', contents };
    }),
};

/** A development package of the console. A program below .cache would not find it either. */
const esbuild = createRequire(path.join(root, 'console/package.json')).resolve('esbuild');
const ownBundler = {
  name: 'own-bundler',
  setup: ({ onResolve }) => onResolve({ filter: /^esbuild$/ }, () => ({ path: esbuild, external: true })),
};

/** CommonJS packages call `require`. */
const banner =
  "import { createRequire as requireOf } from 'node:module';" +
  'const require = requireOf(import.meta.url), __filename = import.meta.filename, __dirname = import.meta.dirname;';

const { build } = await import(pathToFileURL(esbuild).href);
await build({
  absWorkingDir: root,
  entryPoints: programs.map((name) => `${name}.ts`),
  outdir: output,
  outbase: root,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  keepNames: true,
  banner: { js: banner },
  // Drivers that knex and pg look for and that are not installed.
  external: 'better-sqlite3 mariadb mysql mysql2 oracledb pg-native pg-query-stream sqlite3 tedious'.split(
    ' ',
  ),
  plugins: [ownPlaces, ownBundler],
  logLevel: 'error',
});

/** Loaded before a program (`--import`), it starts the one file in place of the source. Worker threads load the sources. */
const hook = path.join(output, 'hook.mjs');
const urlOf = (...of) => pathToFileURL(path.join(...of)).href;
const places = programs.map((name) => [urlOf(root, `${name}.ts`), urlOf(output, `${name}.mjs`)]);
await writeFile(
  hook,
  `import { registerHooks } from 'node:module';
const programs = new Map(${JSON.stringify(places)});
registerHooks({
  resolve(specifier, context, next) {
    const url = context.parentURL === undefined ? programs.get(specifier) : undefined;
    return url === undefined ? next(specifier, context) : { url, format: 'module', shortCircuit: true };
  },
});
`,
);
process.stdout.write(`${hook}\n`);

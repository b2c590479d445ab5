import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { keptFiles, type Made } from '@token-vault/kept-files';
import type { BuildOptions, BuildResult, Plugin } from 'esbuild';
import { guestModules } from './guest-modules.ts';
import type { ChildBundle, GuestModule } from './messages.ts';

export interface SandboxBundle extends ChildBundle {
  /** The program of a child, as one script. */
  readonly program: string;
  /** The isolated-vm binary that the child loads. The pool's own process never loads it. */
  readonly addonPath: string;
}

const here = import.meta.dirname;
let made: Promise<SandboxBundle> | undefined;

/** The child's program and the guest's runtime, bundled once (about half a second) and kept below `.cache/`. */
export function sandboxBundle(): Promise<SandboxBundle> {
  made ??= readOrMake();
  return made;
}

async function readOrMake(): Promise<SandboxBundle> {
  const recipe = {
    name: 'sandbox',
    repository: dirname(dirname(dirname(here))),
    sources: [here],
    make: bundle,
  };
  const files = await keptFiles(recipe);
  const text = (name: string) => files.get(name)?.toString() ?? '';
  return {
    program: text('program.js'),
    core: text('core.js'),
    modules: JSON.parse(text('modules.json')) as ChildBundle['modules'],
    addonPath: findAddon(),
  };
}

const programBuild: BuildOptions = {
  entryPoints: [join(here, 'child/main.ts')],
  platform: 'node',
  format: 'cjs',
  minify: true,
};
const coreBuild: BuildOptions = {
  entryPoints: [join(here, 'guest/core.ts')],
  platform: 'neutral',
  format: 'iife',
  banner: { js: '"use strict";' },
};
const modulesBuild = (): BuildOptions => ({
  entryPoints: Object.keys(guestModules).map((name) => ({ in: name, out: fileName(name) })),
  outdir: '/',
  platform: 'browser',
  format: 'cjs',
  minifySyntax: true,
  define: { 'process.env.NODE_ENV': '"production"', 'process.env.NODE_DEBUG': 'undefined' },
  plugins: [guestResolution],
});

async function bundle(): Promise<Made> {
  const esbuild = await import('esbuild');
  const build = (options: BuildOptions) =>
    esbuild.build({
      bundle: true,
      metafile: true,
      write: false,
      target: 'es2023',
      logLevel: 'silent',
      minifyWhitespace: true,
      ...options,
    });
  try {
    const [program, core, modules] = await Promise.all([
      build(programBuild),
      build(coreBuild),
      build(modulesBuild()),
    ]);
    const [programFile, coreFile] = [program.outputFiles?.[0], core.outputFiles?.[0]];
    if (programFile === undefined || coreFile === undefined) throw new Error('esbuild gave no output');
    return {
      files: new Map([
        ['program.js', programFile.contents],
        ['core.js', coreFile.contents],
        ['modules.json', Buffer.from(JSON.stringify(guestModulesOf(modules)))],
      ]),
      inputs: [program, core, modules].flatMap(inputsOf),
    };
  } finally {
    // esbuild keeps a process of its own running, which would use memory of an idle pool.
    await esbuild.stop();
  }
}

function guestModulesOf({ outputFiles = [], metafile }: BuildResult): ChildBundle['modules'] {
  const texts = new Map(outputFiles.map(({ path, text }) => [path, text]));
  const outputs = Object.entries(metafile?.outputs ?? {});
  const entries = Object.entries(guestModules).map(([name, { words, uses = [] }]): [string, GuestModule] => {
    const path = `/${fileName(name)}.js`;
    const imports = outputs.find(([output]) => `/${output}`.endsWith(path))?.[1].imports ?? [];
    const needs = imports.map((each) => each.path).filter((each) => Object.hasOwn(guestModules, each));
    return [name, { source: texts.get(path) ?? '', needs: [...new Set([...needs, ...uses])], words }];
  });
  return Object.fromEntries(entries);
}

/** The files that the bundle is made from. The names of modules that a plugin made contain a colon. */
function inputsOf({ metafile }: BuildResult): string[] {
  const names = Object.keys(metafile?.inputs ?? {}).filter((name) => !name.includes(':'));
  return names.map((name) => resolve(name));
}

function fileName(name: string): string {
  return name.replace(/[^\w.-]/g, '_');
}

/** Every module of the table is bundled separately. A module that requires another calls the guest's `require`. */
const guestResolution: Plugin = {
  name: 'guest-resolution',
  setup(build) {
    build.onResolve({ filter: /.*/ }, ({ path, kind, importer, namespace }) => {
      const name = path.replace(/^node:/, '');
      const entry = guestModules[name];
      if (kind === 'entry-point') {
        return entry?.file === undefined
          ? { path: name, namespace: 'guest' }
          : { path: join(here, 'guest/modules', entry.file) };
      }
      if (name === 'process/' || name === 'process') return { path: 'process', namespace: 'guest' };
      if (name === '@token-vault/reactor' || name === 'timers') return { path: name, external: true };
      const isItself = namespace === 'guest' && importer === name;
      return entry === undefined || isItself ? undefined : { path: name, external: true };
    });
    build.onLoad({ filter: /.*/, namespace: 'guest' }, ({ path }) => ({
      contents:
        path === 'process' ? 'module.exports = globalThis.process' : (guestModules[path]?.contents ?? ''),
      resolveDir: here,
    }));
  },
};

export function findAddon(): string {
  const packageFile = createRequire(import.meta.url).resolve('isolated-vm/package.json');
  const locate = createRequire(packageFile)('node-gyp-build') as { path(directory: string): string };
  return locate.path(join(packageFile, '..'));
}

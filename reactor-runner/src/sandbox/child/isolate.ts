import type IsolatedVm from 'isolated-vm';
import type { ChildBundle } from '../messages.ts';
import type { SandboxLimits } from '../limits.ts';

export type HostFunction = (operation: string, first: string, second: string) => string | undefined;

/** An isolate with the runtime loaded and without code of a tenant. It serves one run and is then disposed. */
export interface PreparedIsolate {
  readonly isolate: IsolatedVm.Isolate;
  readonly context: IsolatedVm.Context;
  readonly dispatch: IsolatedVm.Reference<(kind: string, first: string, second: string) => void>;
  /** From now on this function answers the guest's host operations. */
  onHost: HostFunction;
}

const coreFilename = 'vault:core';

export interface IsolateFactory {
  prepare(): PreparedIsolate;
  /** Defines the modules that the code mentions, so that requiring them needs no compilation. */
  preload(prepared: PreparedIsolate, code: string): void;
  sourceOf(module: string): string | undefined;
}

export function createIsolateFactory(
  ivm: typeof IsolatedVm,
  bundle: ChildBundle,
  limits: SandboxLimits,
): IsolateFactory {
  // A code cache is made in the process that uses it, and only of the vault's own scripts.
  const caches = new Map<string, IsolatedVm.ExternalCopy<ArrayBuffer>>();

  const runOwn = (
    { isolate, context }: Pick<PreparedIsolate, 'isolate' | 'context'>,
    filename: string,
    code: string,
  ) => {
    const cachedData = caches.get(filename);
    const script = isolate.compileScriptSync(code, {
      filename,
      ...(cachedData === undefined ? { produceCachedData: true } : { cachedData }),
    }) as IsolatedVm.Script & IsolatedVm.CachedDataResult;
    if (script.cachedData !== undefined) caches.set(filename, script.cachedData);
    // The vault's own scripts have no time limit: each limit would wake isolated-vm's timer thread.
    script.runSync(context);
    script.release();
  };

  return {
    prepare() {
      const prepared: { onHost: HostFunction } = { onHost: () => undefined };
      // Without `onCatastrophicError`, which needs a second thread. When V8 is out of memory it aborts, and the pool
      // recognises that signal.
      const isolate = new ivm.Isolate({ memoryLimit: limits.isolateMemoryMb });
      const context = isolate.createContextSync();
      context.global.setSync(
        '__host',
        new ivm.Callback((operation: unknown, first: unknown, second: unknown) => {
          if (typeof operation !== 'string' || typeof first !== 'string' || typeof second !== 'string')
            return undefined;
          return prepared.onHost(operation, first, second);
        }),
      );
      runOwn({ isolate, context }, coreFilename, bundle.core);
      const dispatch = context.global.getSync('__dispatch', { reference: true });
      return Object.assign(prepared, { isolate, context, dispatch });
    },
    preload(prepared, code) {
      for (const name of mentioned(bundle, code)) {
        // Strict, as `core` is: `caller` and `arguments` of a tenant's function show nothing of the functions that
        // called it.
        const wrapped = `__define(${JSON.stringify(name)},(function(module,exports,require,internal){"use strict";${bundle.modules[name]?.source}\n}))`;
        runOwn(prepared, `vault:${name}`, wrapped);
      }
    },
    sourceOf: (module) =>
      Object.hasOwn(bundle.modules, module) ? bundle.modules[module]?.source : undefined,
  };
}

/** A guess. When it is wrong it costs only time: a missed module is compiled when it is required. */
function mentioned(bundle: ChildBundle, code: string): Set<string> {
  const names = new Set<string>();
  const add = (name: string): void => {
    if (names.has(name)) return;
    names.add(name);
    bundle.modules[name]?.needs.forEach(add);
  };
  for (const [name, { words }] of Object.entries(bundle.modules)) {
    if (words.some((word) => code.includes(word))) add(name);
  }
  return names;
}

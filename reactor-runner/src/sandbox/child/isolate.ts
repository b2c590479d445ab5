import type IsolatedVm from 'isolated-vm';
import type { ChildBundle } from '../messages.ts';
import type { SandboxLimits } from '../limits.ts';

export type HostFunction = (operation: string, first: string, second: string) => string | undefined;

/** An isolate with the runtime loaded and no code of a tenant yet. Serves one run, then is disposed. */
export interface PreparedIsolate {
  readonly isolate: IsolatedVm.Isolate;
  readonly context: IsolatedVm.Context;
  readonly dispatch: IsolatedVm.Reference<(kind: string, first: string, second: string) => void>;
  /** Answers the guest's host operations from now on. */
  onHost: HostFunction;
}

const coreFilename = 'vault:core';

export interface IsolateFactory {
  prepare(): PreparedIsolate;
  /** Defines the modules the code mentions, so that requiring them costs no compilation. */
  preload(prepared: PreparedIsolate, code: string): void;
  sourceOf(module: string): string | undefined;
}

export function createIsolateFactory(
  ivm: typeof IsolatedVm,
  bundle: ChildBundle,
  limits: SandboxLimits,
): IsolateFactory {
  // Code caches are made by the process that uses them, and of our own scripts only.
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
    // No time limit on what is ours: each would wake isolated-vm's timer thread once more.
    script.runSync(context);
    script.release();
  };

  return {
    prepare() {
      const prepared: { onHost: HostFunction } = { onHost: () => undefined };
      // Without `onCatastrophicError`, which needs a second thread: when V8 is out of memory it aborts, and the pool
      // knows what that signal means.
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
        // Strict, as `core` is: `caller` and `arguments` of a function of the tenant's show nothing of what called it.
        const wrapped = `__define(${JSON.stringify(name)},(function(module,exports,require,internal){"use strict";${bundle.modules[name]?.source}\n}))`;
        runOwn(prepared, `vault:${name}`, wrapped);
      }
    },
    sourceOf: (module) =>
      Object.hasOwn(bundle.modules, module) ? bundle.modules[module]?.source : undefined,
  };
}

/** A guess that only costs time when it is wrong: what is missed is compiled when it is required. */
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

import { apply, asString, BaseError, CompileFunction, host, parse } from './bridge.ts';
import type { Internal } from './bridge.ts';
import { answer, call, sync } from './calls.ts';
import { createErrors } from './errors.ts';
import { reportFailure, reportLoadFailure, reportResponse } from './report.ts';
import { createServiceClient } from './service-client.ts';
import { fire, timerGlobals } from './timers.ts';

interface GuestModuleRecord {
  exports: unknown;
}
type Factory = (module: GuestModuleRecord, exports: unknown, require: Require, internal: Internal) => void;
type Require = (name: string) => unknown;
type Main = (module: GuestModuleRecord, exports: unknown, require: Require) => void;

interface Scope {
  [name: string]: unknown;
}
const scope = globalThis as Scope;

const internal: Internal = { sync, call, log: (level, text) => void host('log', level, text) };
const factories = new Map<string, Factory>();
const loaded = new Map<string, GuestModuleRecord>();
let main: Main | undefined;

const aliases = new Map([
  ['http', 'https'],
  ['timers/promises', 'timers'],
  ['util/types', 'util'],
  ['path/posix', 'path'],
  ['assert/strict', 'assert'],
]);

function load(name: string): unknown {
  const known = loaded.get(name);
  if (known !== undefined) return known.exports;
  const factory = factories.get(name) ?? fetchFactory(name);
  const module: GuestModuleRecord = { exports: {} };
  loaded.set(name, module);
  factory(module, module.exports, load, internal);
  return module.exports;
}

function fetchFactory(name: string): Factory {
  const source = host('source', name);
  if (source !== undefined) {
    const strict = `"use strict";${source}`;
    return new CompileFunction('module', 'exports', 'require', 'internal', strict) as Factory;
  }
  throw Object.assign(new BaseError(`Cannot find module '${name}'`), { code: 'MODULE_NOT_FOUND' });
}

function guestRequire(request: unknown): unknown {
  const asked = asString(request).replace(/^node:/, '');
  const name = aliases.get(asked) ?? asked;
  if (name.startsWith('internal:'))
    throw Object.assign(new BaseError(`Cannot find module '${name}'`), { code: 'MODULE_NOT_FOUND' });
  return load(name);
}

/** Parts of the runtime itself are also made at their first use. */
function define(name: string, make: () => unknown): void {
  factories.set(name, (module) => {
    module.exports = make();
  });
}

define('@token-vault/reactor', createErrors);
define('timers', () => ({ ...timerGlobals, promises: promiseTimers() }));
define('internal:process', deadProcess);

function promiseTimers() {
  const later = (ms?: number, value?: unknown) =>
    new Promise((resolve) => timerGlobals.setTimeout(resolve, ms, value));
  return { setTimeout: later, setImmediate: (value?: unknown) => later(0, value) };
}

function setGlobal(name: string, value: unknown): void {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}

/** A global that is loaded when it is first read: an unused polyfill costs a run no time. */
function lazyGlobal(name: string, from: string, pick?: string): void {
  Object.defineProperty(globalThis, name, {
    configurable: true,
    enumerable: false,
    get: () => {
      const exported = load(from);
      const value = pick === undefined ? exported : (exported as Scope)[pick];
      // Undefined while the module itself loads: polyfills look for a native version of what they define.
      if (value !== undefined) setGlobal(name, value);
      return value;
    },
    set: (value: unknown) => setGlobal(name, value),
  });
}

const lazyGlobals: Record<string, string[]> = {
  buffer: ['Buffer'],
  url: ['URL', 'URLSearchParams'],
  'internal:text': ['TextEncoder', 'TextDecoder', 'atob', 'btoa'],
  'internal:abort': ['AbortController', 'AbortSignal', 'Event', 'EventTarget', 'DOMException'],
  'internal:clone': ['structuredClone'],
  'internal:fetch': ['fetch', 'Headers', 'Request', 'Response', 'Blob', 'FormData'],
};

function installGlobals(): void {
  for (const name of ['WebAssembly', 'SharedArrayBuffer', 'Atomics', '__host']) delete scope[name];
  Object.assign(scope, timerGlobals);
  for (const [from, names] of Object.entries(lazyGlobals))
    for (const name of names) lazyGlobal(name, from, name);
  lazyGlobal('crypto', 'crypto', 'webcrypto');
  lazyGlobal('CryptoKey', 'crypto', 'CryptoKey');
  lazyGlobal('console', 'console');
  lazyGlobal('process', 'internal:process');
  setGlobal('global', globalThis);
  setGlobal('self', globalThis);
  setGlobal('queueMicrotask', (callback: () => void) => {
    void Promise.resolve().then(() => callback());
  });
  const startedAt = Date.now();
  setGlobal('performance', {
    now: () => Date.now() - startedAt,
    timeOrigin: startedAt,
    mark: () => {},
    measure: () => {},
  });
  refuseResizableBuffers();
}

/** Libraries read `process`. It holds no information here. */
function deadProcess() {
  return {
    env: {},
    argv: [],
    execArgv: [],
    version: 'v16.20.2',
    versions: { node: '16.20.2' },
    platform: 'linux',
    pid: 1,
    cwd: () => '/',
    uptime: () => 0,
    nextTick: (callback: (...values: unknown[]) => void, ...values: unknown[]) => {
      void Promise.resolve().then(() => callback(...values));
    },
    hrtime: () => [Math.floor(Date.now() / 1_000), (Date.now() % 1_000) * 1e6],
    memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
    on: () => undefined,
    once: () => undefined,
    emitWarning: () => undefined,
    stdout: { write: (text: unknown) => console.log(text), isTTY: false },
    stderr: { write: (text: unknown) => console.error(text), isTTY: false },
  };
}

/** Resizable buffers are outside the isolate's memory accounting (sandbox.md, rule 5). */
function refuseResizableBuffers(): void {
  const Native = ArrayBuffer;
  const Fixed = function (this: unknown, length?: number) {
    if (!new.target) throw new TypeError("Constructor ArrayBuffer requires 'new'");
    return Reflect.construct(Native, [length], new.target) as unknown;
  };
  Object.defineProperty(Fixed, 'name', { value: 'ArrayBuffer' });
  Object.defineProperty(Fixed, 'isView', { value: (value: unknown) => Native.isView(value) });
  Object.defineProperty(Fixed, Symbol.species, { get: (): unknown => Fixed });
  Fixed.prototype = Native.prototype;
  Object.defineProperty(Native.prototype, 'constructor', {
    value: Fixed,
    writable: false,
    configurable: false,
  });
  Reflect.deleteProperty(Native.prototype, 'resize');
  setGlobal('ArrayBuffer', Fixed);
}

interface Input {
  readonly args?: unknown;
  /** The text of `args.body`. */
  readonly bodyText?: string;
  readonly configuration: unknown;
  readonly hasSvc: boolean;
  readonly purpose: 'run' | 'check';
}

function parsedOrNull(text: string): unknown {
  try {
    return parse(text);
  } catch {
    return null;
  }
}

function start(text: string): void {
  const input = parse(text) as Input;
  if (input.bodyText !== undefined) (input.args as { body: unknown }).body = parsedOrNull(input.bodyText);
  const module: GuestModuleRecord = { exports: {} };
  try {
    if (main !== undefined) apply(main, module.exports, [module, module.exports, guestRequire]);
  } catch (error) {
    reportLoadFailure(error);
    return;
  }
  const handler = exportedFunction(module.exports);
  if (handler === undefined)
    host('load-failed', 'The code must export a function: module.exports = async function (req) { … }');
  else if (input.purpose === 'check') host('compiled');
  else void invoke(handler, input);
}

function exportedFunction(exported: unknown): ((request: unknown) => unknown) | undefined {
  if (typeof exported === 'function') return exported as (request: unknown) => unknown;
  const transpiled = (exported as { default?: unknown } | null | undefined)?.default;
  return typeof transpiled === 'function' ? (transpiled as (request: unknown) => unknown) : undefined;
}

async function invoke(handler: (request: unknown) => unknown, input: Input): Promise<void> {
  try {
    const { args, configuration } = input;
    const response = await handler({ args, configuration, svc: input.hasSvc ? createServiceClient() : null });
    reportResponse(response);
  } catch (error) {
    reportFailure(error);
  }
}

scope['__define'] = (name: string, factory: Factory) => {
  factories.set(name, factory);
};
// Called last, before any code of a tenant runs.
scope['__main'] = (factory: Main) => {
  main = factory;
  for (const name of ['__define', '__dispatch', '__main']) delete scope[name];
};
installGlobals();
scope['__dispatch'] = (kind: string, first: string, second: string): void => {
  try {
    if (kind === 'timer') fire(first);
    else if (kind === 'answer') answer(first, second);
    else start(first);
  } catch (error) {
    reportFailure(error);
  }
};

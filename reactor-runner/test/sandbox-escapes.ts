import { attack } from './sandbox-corpus.ts';
import type { Attack } from './sandbox-corpus.ts';

/** Attempts to leave the sandbox. Each must succeed and find nothing: its `raw` is an empty list of findings. */
export const escapes: readonly Attack[] = [
  attack(
    'the constructor chain',
    'succeeded',
    'const found = []; for (const of of [req, req.args, console, console.log, setTimeout, require, fetch, process, (async () => {})]) { const made = of.constructor.constructor("return typeof process.binding + typeof process.mainModule + typeof process.kill + typeof globalThis.require")(); if (made !== "undefinedundefinedundefinedundefined") found.push(made); } return { raw: found };',
  ),
  attack(
    'call sites of a prepared stack',
    'succeeded',
    'Error.prepareStackTrace = (_, sites) => sites; const found = []; const look = (error) => { for (const site of error.stack) { const self = site.getThis(); const made = site.getFunction(); if (self && self !== globalThis && self !== module.exports) found.push("this"); if (made && !String(made).includes("look")) found.push("function"); } }; look(new Error()); try { require("nothing"); } catch (error) { look(error); } try { setTimeout(1); } catch (error) { look(error); } return { raw: found };',
  ),
  attack(
    'caller and arguments',
    'succeeded',
    'const found = []; function probe() { try { if (probe.caller && probe.caller.caller) found.push("caller"); } catch {} } probe(); setTimeout(probe, 1); await new Promise((resolve) => setTimeout(resolve, 5)); return { raw: found };',
  ),
  attack(
    'the callers of what modules call',
    'succeeded',
    `const found = [];
     const seen = (via) => function probe() {
       let caller = null, values = null;
       try { caller = probe.caller; } catch {}
       try { values = arguments.callee.caller && arguments.callee.caller.arguments; } catch {}
       if (caller !== null || values !== null) found.push(via + ': ' + String(caller).slice(0, 60));
       return 0;
     };
     const getter = (name, probe) => Object.defineProperty({}, name, { get: probe, enumerable: true });
     const attempt = async (via, work) => { try { await work(seen(via)); } catch {} };
     await attempt('events', (probe) => { const emitter = new (require('events'))(); emitter.on('a', probe); emitter.emit('a', 1); });
     await attempt('stringify', (probe) => require('json-stable-stringify')({ a: 1, b: 2 }, { cmp: probe, replacer: probe }));
     await attempt('throws', (probe) => require('assert').throws(probe));
     await attempt('xml', (probe) => new (require('fast-xml-parser').XMLParser)({ tagValueProcessor: probe }).parse('<a><b>1</b></a>'));
     await attempt('axios', (probe) => require('axios').get('https://x.test', { transformRequest: [probe], paramsSerializer: probe, params: { a: 1 } }));
     await attempt('uuid', (probe) => require('uuid').v4({ rng: probe }));
     await attempt('crypto-js', (probe) => require('crypto-js').lib.Base.extend({ init: probe }).create());
     await attempt('stream', (probe) => { const { Readable } = require('stream'); new Readable({ read: probe }).read(); });
     await attempt('inspect', (probe) => console.log({ toString: probe, toJSON: probe }, getter('a', probe)));
     await attempt('promisify', (probe) => void require('util').promisify(probe)());
     await attempt('url', (probe) => new URL({ toString: probe }));
     await attempt('path', (probe) => require('path').format(getter('dir', probe)));
     await attempt('buffer', (probe) => Buffer.from(getter('length', probe)));
     await attempt('timers', async (probe) => { setTimeout(probe, 1); await new Promise((resolve) => setTimeout(resolve, 5)); });
     return { raw: found };`,
  ),
  attack(
    'globals of the runtime',
    'succeeded',
    'const names = ["__host", "__define", "__main", "__dispatch", "ivm", "WebAssembly", "SharedArrayBuffer", "Atomics", "Bun", "Deno", "isolate"]; return { raw: Object.getOwnPropertyNames(globalThis).filter((name) => names.includes(name)) };',
  ),
  attack(
    'files, processes and the environment',
    'succeeded',
    'const found = Object.keys(process.env); for (const name of ["fs", "child_process", "net", "dns", "module", "vm", "worker_threads", "process", "os", "isolated-vm", "internal:fetch", "../../etc/passwd", "/etc/passwd", "__proto__", "constructor", "toString"]) { try { require(name); found.push(name); } catch {} } try { await import("fs"); found.push("import"); } catch {} return { raw: found };',
  ),
  attack(
    'a patched bridge',
    'succeeded',
    'const found = []; const spy = function (...all) { for (const each of all) if (typeof each === "function" && /native code/.test(String(each)) && each.name === "") found.push("host"); return Reflect.ownKeys({}); }; Function.prototype.call = spy; Function.prototype.apply = spy; Map.prototype.set = spy; Array.prototype.push = function (each) { spy(each); this[this.length] = each; return this.length; }; try { console.log(1); await fetch("https://x.test").catch(() => {}); } catch {} return { raw: found };',
  ),
  {
    name: 'the end of the wrapper',
    code: '}); globalThis.escaped = true; (function () {',
    ends: ['compile-error'],
  },
  {
    name: 'the end of the wrapper, as a comment',
    code: 'module.exports = () => ({ raw: [] }); /*',
    ends: ['compile-error'],
  },
  { name: 'a module instead of a script', code: 'export default async () => ({});', ends: ['compile-error'] },
  { name: 'an import', code: 'import fs from "fs"; module.exports = () => ({});', ends: ['compile-error'] },
];

/**
 * Hostile code with the expected end of each piece. `body` is put into a handler unless the case brings a whole
 * module.
 */
export interface Attack {
  readonly name: string;
  readonly code: string;
  readonly ends: readonly string[];
  /** For attacks that need a long preparation, on a busy machine. */
  readonly timeoutMs?: number;
  /** True: part of the short run too. */
  readonly isRepresentative?: boolean;
}

const handler = (body: string): string => `module.exports = async function (req) { ${body} };`;

export function attack(name: string, ends: string | readonly string[], body: string): Attack {
  return { name, ends: typeof ends === 'string' ? [ends] : ends, code: handler(body) };
}

function chosen(each: Attack): Attack {
  return { ...each, isRepresentative: true };
}

const loops: readonly Attack[] = [
  chosen(attack('an endless loop', 'timed-out', 'for (;;);')),
  chosen(attack('an endless chain of microtasks', 'timed-out', 'for (;;) await 0;')),
  attack(
    'promises that queue promises',
    ['timed-out', 'out-of-memory'],
    'const go = () => Promise.resolve().then(go); await go();',
  ),
  attack(
    'timers that set timers',
    'timed-out',
    'await new Promise(() => { const go = () => setTimeout(go, 0); go(); });',
  ),
  attack('an interval that never ends', 'timed-out', 'await new Promise(() => setInterval(() => {}, 1));'),
  attack('a thenable that loops', 'timed-out', 'return { then() { for (;;); } };'),
  chosen(attack('a toJSON that loops', 'timed-out', 'return { raw: { toJSON() { for (;;); } } };')),
  attack('a getter in the result that loops', 'timed-out', 'return { get raw() { for (;;); } };'),
  attack(
    'a proxy in the result that loops',
    'timed-out',
    'return { raw: new Proxy({}, { ownKeys() { for (;;); } }) };',
  ),
  attack(
    'an error whose message loops',
    'timed-out',
    'throw Object.defineProperty(new Error(), "message", { get() { for (;;); } });',
  ),
  attack(
    'a loop in finally around a loop',
    'timed-out',
    'for (;;) { try { for (;;); } finally { for (;;); } }',
  ),
  attack(
    'a loop after the answer',
    'succeeded',
    'Promise.resolve().then(() => {}).then(() => { setTimeout(() => { for (;;); }, 0); }); return { raw: 1 };',
  ),
  attack(
    'a sleep beyond the limit',
    'timed-out',
    'await new Promise((resolve) => setTimeout(resolve, 60_000));',
  ),
  { name: 'a loop while the module loads', code: 'for (;;);', ends: ['timed-out'] },
  chosen(attack('a promise that never settles', 'never-settled', 'await new Promise(() => {});')),
];

const natives: readonly Attack[] = [
  chosen(
    attack(
      'parsing a large text for ever',
      'timed-out',
      'const text = "[" + "1,".repeat(1e6) + "1]"; for (;;) JSON.parse(text);',
    ),
  ),
  chosen(
    attack(
      'squaring a BigInt for ever',
      ['timed-out', 'failed'],
      'let big = 3n; for (;;) { try { big *= big; } catch { big = 3n ** 100000n; } }',
    ),
  ),
  attack(
    'a search through 2^53 elements',
    'timed-out',
    'Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1);',
  ),
  chosen(attack('a catastrophic pattern', 'timed-out', '/^(a+)+$/.test("a".repeat(40) + "b");')),
  attack('sorting with an endless comparison', 'timed-out', '[1, 2, 3].sort(() => { for (;;); });'),
  attack(
    'printing a huge BigInt',
    ['timed-out', 'failed', 'succeeded'],
    'return { raw: String((3n ** 400000n) ** 10n).length };',
  ),
];

const dead = ['out-of-memory', 'timed-out', 'failed', 'killed'];

const memory: readonly Attack[] = [
  chosen(
    attack(
      'arrays without end',
      'out-of-memory',
      'const all = []; for (;;) all.push(new Array(1e6).fill(1.5));',
    ),
  ),
  chosen(attack('a map without end', dead, 'const map = new Map(); for (let i = 0; ; i++) map.set(i, i);')),
  attack('a set of objects without end', dead, 'const set = new Set(); for (;;) set.add({});'),
  attack('a join of 2^28 elements', dead, 'new Array(2 ** 28).join("abcdefg");'),
  attack('a split into 2^26 pieces', dead, '"x".repeat(2 ** 26).split("");'),
  chosen(
    attack(
      'array buffers without end',
      ['out-of-memory', 'failed'],
      'const all = []; for (;;) all.push(new Uint8Array(1e7).fill(1));',
    ),
  ),
  attack(
    'array buffers, refusals ignored',
    dead,
    'const all = []; for (;;) { try { all.push(new Uint8Array(1e7).fill(1)); } catch {} }',
  ),
  chosen(
    attack(
      'a resizable buffer',
      ['succeeded', 'failed'],
      'const buffer = new ArrayBuffer(8, { maxByteLength: 2 ** 31 }); buffer.resize(2 ** 31); return { raw: 1 };',
    ),
  ),
  attack(
    'flattened long strings',
    dead,
    'const all = []; for (let i = 0; ; i++) { const s = ("y" + i).repeat(1e7); s.charCodeAt(1); all.push(s, s + i); }',
  ),
  attack(
    'formatters without end',
    dead,
    'const all = []; for (let i = 0; ; i++) all.push(new Intl.DateTimeFormat("de", { numberingSystem: "latn" }), new Intl.Collator("fr"));',
  ),
  attack(
    'closures on the queue without end',
    dead,
    'for (;;) Promise.resolve(new Array(1000).fill(0)).then(() => new Promise(() => {}));',
  ),
  attack(
    'text decoding of large buffers',
    dead,
    'const all = []; for (;;) all.push(new TextDecoder().decode(new Uint8Array(4e6).fill(65)));',
  ),
  attack(
    'an array of 2^32 - 1 holes, filled',
    dead,
    'Array.from({ length: 2 ** 32 - 1 }, (_, i) => ({ i }));',
  ),
];

const results: readonly Attack[] = [
  chosen(attack('a result of two megabytes', 'output-too-large', 'return { raw: "x".repeat(2 ** 21) };')),
  attack(
    'a result of half a gigabyte',
    ['output-too-large', 'out-of-memory', 'killed'],
    'return { raw: "x".repeat(2 ** 29 - 100) };',
  ),
  attack(
    'a sparse array of 10^8 elements',
    dead.concat('output-too-large'),
    'return { raw: new Array(1e8) };',
  ),
  chosen(
    attack('a circular result', 'not-serialisable', 'const all = {}; all.self = all; return { raw: all };'),
  ),
  chosen(attack('a BigInt in the result', 'not-serialisable', 'return { raw: 1n };')),
  chosen(
    attack(
      'a result 5,000 levels deep',
      'not-serialisable',
      'let all = 0; for (let i = 0; i < 5000; i++) all = [all]; return { raw: all };',
    ),
  ),
  attack(
    'a result 10^6 levels deep',
    ['not-serialisable', 'timed-out', 'out-of-memory'],
    'let all = 0; for (let i = 0; i < 1e6; i++) all = [all]; return { raw: all };',
  ),
  attack(
    'a getter in the result that throws',
    'not-serialisable',
    'return { raw: { get a() { throw new Error("x"); } } };',
  ),
  chosen(
    attack(
      'a __proto__ key in the result',
      'not-serialisable',
      'return { raw: JSON.parse(\'{"__proto__":{"a":1}}\') };',
    ),
  ),
  attack(
    'a toJSON that returns ever new objects',
    ['not-serialisable', 'timed-out', 'out-of-memory', 'output-too-large', 'succeeded'],
    'const make = () => ({ toJSON: () => [make()] }); return { raw: make() };',
  ),
  attack(
    'a revoked proxy',
    ['not-serialisable', 'failed'],
    'const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return { raw: proxy };',
  ),
];

const floods: readonly Attack[] = [
  chosen(
    attack(
      'a million timers',
      'limit-exceeded',
      'for (let i = 0; i < 1e6; i++) setTimeout(() => {}, 1e6); await new Promise(() => {});',
    ),
  ),
  attack(
    'a million timers set and cleared',
    'limit-exceeded',
    'for (let i = 0; i < 1e6; i++) clearTimeout(setTimeout(() => {}, 1e6));',
  ),
  chosen(
    attack(
      'a million console lines',
      'succeeded',
      'for (let i = 0; i < 1e6; i++) console.log("x".repeat(100)); return { raw: 1 };',
    ),
  ),
  attack(
    'one console line of 100 MB',
    ['succeeded', 'out-of-memory'],
    'console.log("x".repeat(2 ** 24)); return { raw: 1 };',
  ),
  chosen(
    attack(
      'a thousand requests at once',
      'limit-exceeded',
      'await Promise.all(Array.from({ length: 1000 }, () => fetch("https://x.test")));',
    ),
  ),
  attack(
    'a flood of random bytes',
    ['limit-exceeded', 'timed-out'],
    'for (;;) require("crypto").randomBytes(65536);',
  ),
  attack(
    'a key derivation beyond all bounds',
    'failed',
    'require("crypto").pbkdf2Sync("a", "b", 2 ** 31 - 1, 4096, "sha512");',
  ),
  attack(
    'expensive key derivations',
    'timed-out',
    'for (;;) require("crypto").pbkdf2Sync("a", "b", 5_000_000, 32, "sha512");',
  ),
  chosen(attack('endless recursion', 'failed', 'const go = () => go() + 1; go();')),
  attack(
    'endless recursion, errors ignored',
    ['timed-out', 'failed'],
    'const go = () => { try { go(); } finally { go(); } }; go();',
  ),
];

export const attacks: readonly Attack[] = [...loops, ...natives, ...memory, ...results, ...floods].map(
  (each) => (each.ends.includes('timed-out') ? each : { ...each, timeoutMs: 15_000 }),
);

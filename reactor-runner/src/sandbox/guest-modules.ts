export interface GuestModuleSource {
  /** A file under `guest/modules`, or the text of an entry that names a package. */
  readonly file?: string;
  readonly contents?: string;
  /** Globals of other modules that this one reads while it loads or runs. */
  readonly uses?: readonly string[];
  /** Words in a tenant's code that indicate that loading this module before the run saves time. */
  readonly words: readonly string[];
}

function named(name: string): readonly string[] {
  return [`'${name}'`, `"${name}"`, `\`${name}\``, `node:${name}`];
}

function fromPackage(
  name: string,
  contents = `module.exports = require('${name}')`,
  uses: readonly string[] = [],
): GuestModuleSource {
  return { contents, uses, words: named(name) };
}

function fromFile(file: string, words: readonly string[], uses: readonly string[] = []): GuestModuleSource {
  return { file, words, uses };
}

const fetchWords = ['fetch', 'Headers', 'Request', 'Response', 'Blob', 'FormData'];
const fetchUses = ['internal:abort', 'internal:fetch'];

/** The modules that guest code can load: by `require`, or through a global for names with `internal:`. */
export const guestModules: Readonly<Record<string, GuestModuleSource>> = {
  'internal:text': fromFile('text.ts', ['TextEncoder', 'TextDecoder', 'atob', 'btoa']),
  'internal:abort': fromFile('abort.ts', ['Abort', 'EventTarget', 'Event(', 'DOMException']),
  'internal:clone': fromFile('clone.ts', ['structuredClone']),
  'internal:fetch': fromFile('fetch.ts', fetchWords, ['internal:abort']),
  assert: fromFile('assert.ts', named('assert')),
  axios: fromPackage('axios', "module.exports = require('axios/dist/browser/axios.cjs')", [
    'url',
    ...fetchUses,
  ]),
  buffer: fromFile('buffer.ts', ['Buffer', 'buffer'], ['internal:text']),
  console: {
    contents: "module.exports = require('./guest/modules/console.ts').guestConsole",
    words: ['console'],
  },
  crypto: fromFile('crypto/index.ts', ['crypto']),
  'crypto-js': fromPackage('crypto-js', undefined, ['crypto']),
  events: fromPackage('events'),
  'fast-xml-parser': fromPackage('fast-xml-parser', "module.exports = require('fast-xml-parser')"),
  https: fromFile('https.ts', [...named('https'), ...named('http')], fetchUses),
  'json-stable-stringify': fromPackage('json-stable-stringify'),
  'node-fetch': {
    contents:
      "const all = require('./guest/modules/node-fetch.ts'); module.exports = Object.assign(all.default, all)",
    words: named('node-fetch'),
    uses: fetchUses,
  },
  path: fromPackage('path', "module.exports = require('path-browserify')"),
  querystring: fromFile('querystring.ts', named('querystring')),
  stream: fromPackage('stream', "module.exports = require('readable-stream/lib/ours/browser.js')", [
    'internal:abort',
  ]),
  string_decoder: fromPackage(
    'string_decoder',
    "module.exports = require('string_decoder/lib/string_decoder.js')",
  ),
  url: fromFile('url.ts', ['URL', ...named('url')]),
  util: fromFile('util.ts', named('util'), ['internal:text']),
  uuid: fromPackage('uuid', undefined, ['crypto']),
};

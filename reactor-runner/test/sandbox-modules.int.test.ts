import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { guestModules } from '../src/sandbox/guest-modules.ts';
import { createTestPool, handler } from './sandbox-pool-fixture.ts';
import type { TestPool } from './sandbox-pool-fixture.ts';

let test: TestPool;
beforeAll(async () => {
  test = await createTestPool();
});
afterAll(() => test.close());

async function rawOf(body: string): Promise<unknown> {
  const outcome = await test.run(handler(body));
  if (outcome.kind !== 'succeeded') expect.unreachable(JSON.stringify(outcome));
  return outcome.result.raw;
}

describe('a module of the allow-list', () => {
  const names = Object.keys(guestModules).filter((name) => !name.startsWith('internal:'));

  it.each([...names, 'timers', 'console', '@token-vault/reactor', 'node:util', 'http', 'timers/promises'])(
    '%s loads',
    async (name) => {
      expect(
        await rawOf(
          `const loaded = require('${name}'); return { raw: Object.keys(loaded).length + (typeof loaded === 'function' ? 1 : 0) > 0 };`,
        ),
      ).toBe(true);
    },
  );

  it('loads under a name that is valid in its run only', async () => {
    expect(
      await rawOf(
        "return { raw: require(['cry', 'pto'].join('')).createHash('sha1').update('a').digest('hex') };",
      ),
    ).toBe('86f7e437faa5a7fce15d1ddcb9eaeaea377667b8');
    expect(
      await rawOf("return { raw: new globalThis['UR' + 'L']('https://a.test/?b=1').searchParams.get('b') };"),
    ).toBe('1');
  });
});

describe('cryptography in a reactor', () => {
  it.each([
    [
      "const c = require('crypto'); return { raw: c.createHash('sha256').update('a').update('b').digest('hex') };",
      'fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603',
    ],
    [
      "const c = require('crypto'); return { raw: c.createHmac('sha256', 'k').update('a').digest('base64url') };",
      'eNqRUR5nVYf1ud94vt669VYNoqu4gWLuh13N90SVHZ4',
    ],
    [
      "return { raw: require('crypto').pbkdf2Sync('p', 's', 1000, 16, 'sha256').toString('hex') };",
      '07f5f5e23e40846c35c4c7bbc8244ee2',
    ],
    [
      "const c = require('crypto'); const k = c.randomBytes(32), iv = c.randomBytes(12); const e = c.createCipheriv('aes-256-gcm', k, iv).setAAD('x'); const t = e.update('hé', 'utf8', 'hex') + e.final('hex'); const d = c.createDecipheriv('aes-256-gcm', k, iv).setAAD('x').setAuthTag(e.getAuthTag()); return { raw: d.update(t, 'hex', 'utf8') + d.final('utf8') };",
      'hé',
    ],
    [
      "const c = require('crypto'); const { publicKey, privateKey } = c.generateKeyPairSync('rsa', { modulusLength: 2048 }); const s = c.createSign('RSA-SHA256').update('x').sign(privateKey); return { raw: [c.createVerify('sha256').update('x').verify(publicKey, s), c.createVerify('sha256').update('y').verify(publicKey, s), c.privateDecrypt(privateKey, c.publicEncrypt(publicKey, Buffer.from('z'))).toString()] };",
      [true, false, 'z'],
    ],
    [
      "const { subtle } = crypto; const k = await subtle.generateKey({ name: 'AES-GCM', length: 256 }, true, ['encrypt', 'decrypt']); const iv = crypto.getRandomValues(new Uint8Array(12)); const t = await subtle.encrypt({ name: 'AES-GCM', iv }, k, new TextEncoder().encode('€')); return { raw: new TextDecoder().decode(await subtle.decrypt({ name: 'AES-GCM', iv }, k, t)) };",
      '€',
    ],
    [
      "const { subtle } = crypto; const k = await subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']); const a = { name: 'ECDSA', hash: 'SHA-256' }; const s = await subtle.sign(a, k.privateKey, new Uint8Array(3)); return { raw: [s.byteLength, await subtle.verify(a, k.publicKey, s, new Uint8Array(3)), await subtle.verify(a, k.publicKey, s, new Uint8Array(4))] };",
      [64, true, false],
    ],
    ['return { raw: /^[0-9a-f-]{36}$/.test(crypto.randomUUID()) };', true],
    [
      "const c = require('crypto'); const names = c.getHashes(); names.forEach((name) => c.createHash(name).update('a').digest()); return { raw: names.length };",
      11,
    ],
    [
      "const c = require('crypto'); const names = c.getCiphers(); const sizes = (name) => (name.startsWith('aes') ? [Number(name.slice(4, 7)) / 8, name.endsWith('ecb') ? 0 : name.endsWith('gcm') ? 12 : 16] : name.startsWith('des') ? [24, 8] : [32, 12]); names.forEach((name) => { const [key, iv] = sizes(name); const e = c.createCipheriv(name, c.randomBytes(key), iv === 0 ? null : c.randomBytes(iv)); e.update('a'); e.final(); }); return { raw: names.length };",
      14,
    ],
    [
      "try { require('crypto').createHash('nosuch').update('a').digest(); } catch (e) { return { raw: e.message }; }",
      'Digest method not supported',
    ],
  ])('%s', async (body, expected) => {
    expect(await rawOf(body)).toEqual(expected);
  });
});

describe('the runtime of a reactor', () => {
  it.each([
    ["return { raw: Buffer.from('héllo').toString('base64url') };", 'aMOpbGxv'],
    ["return { raw: Buffer.from('aMOpbGxv', 'base64url').toString() };", 'héllo'],
    ["return { raw: [btoa('hi'), atob('aGk=')] };", ['aGk=', 'hi']],
    ['return { raw: new TextDecoder().decode(new Uint8Array([0xff, 0x41, 0xe2, 0x82, 0xac])) };', '\ufffdA€'],
    [
      'const a = { d: new Date(0), m: new Map([[1, { b: 2 }]]) }; a.self = a; const c = structuredClone(a); return { raw: [c.self === c, c.d.toISOString(), c.m.get(1).b] };',
      [true, '1970-01-01T00:00:00.000Z', 2],
    ],
    [
      "const { XMLParser, XMLBuilder } = require('fast-xml-parser'); return { raw: [new XMLParser().parse('<a><b>1</b></a>'), new XMLBuilder().build({ a: 1 })] };",
      [{ a: { b: 1 } }, '<a>1</a>'],
    ],
    [
      "const C = require('crypto-js'); return { raw: C.AES.decrypt(C.AES.encrypt('m', 'p'), 'p').toString(C.enc.Utf8) };",
      'm',
    ],
    [
      "const u = require('uuid'); return { raw: [u.validate(u.v4()), u.v5('x', u.v5.URL)] };",
      [true, '4cd605e7-afa2-5360-b5b9-c5e9fb5c76f4'],
    ],
    ["return { raw: require('json-stable-stringify')({ b: 1, a: 2 }) };", '{"a":2,"b":1}'],
    ["return { raw: require('querystring').parse('a=1&a=2&b=x+y') };", { a: ['1', '2'], b: 'x y' }],
    [
      "let s = ''; for await (const c of require('stream').Readable.from(['a', 'b'])) s += c; return { raw: s };",
      'ab',
    ],
    ["return { raw: await require('util').promisify((v, done) => setTimeout(done, 1, null, v))(7) };", 7],
    [
      'return { raw: [process.env, typeof WebAssembly, typeof SharedArrayBuffer] };',
      [{}, 'undefined', 'undefined'],
    ],
    [
      'let n = 0; await new Promise((done) => { const t = setInterval(() => { if (++n === 3) { clearInterval(t); done(); } }, 1); }); return { raw: n };',
      3,
    ],
    [
      "const c = new AbortController(); c.abort(); try { await fetch('https://x.test', { signal: c.signal }); } catch (e) { return { raw: e.name }; }",
      'AbortError',
    ],
    [
      "const f = new FormData(); f.append('a', 'b'); return { raw: (await new Response(f).text()).includes('name=\"a\"') };",
      true,
    ],
  ])('%s', async (body, expected) => {
    expect(await rawOf(body)).toEqual(expected);
  });
});

import {
  startTransitDouble,
  transitAuthorityFile,
  type TransitDouble,
} from '@token-vault/test-doubles/transit';
import { waitUntil } from '@token-vault/test-support';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import {
  environmentRootKey,
  RootKeyUnavailableError,
  RootKeyUnusableError,
  SealBrokenError,
  transitKey,
  type RootKeyProvider,
  type TransitOptions,
} from '../src/index.ts';

const aad = Buffer.from('tenant');
const bytes = Buffer.alloc(32, 5);

let double: TransitDouble;

beforeEach(async () => {
  double = await startTransitDouble();
  double.keys.create('vault');
  return () => double.down();
});

const optionsOf = (overrides: Partial<TransitOptions> = {}): TransitOptions => ({
  url: double.url,
  key: 'vault',
  token: double.token,
  attemptMs: 300,
  deadlineMs: 1_500,
  ...overrides,
});
const keyOf = (overrides?: Partial<TransitOptions>) => transitKey(optionsOf(overrides));

async function failureOf(attempt: Promise<unknown>): Promise<Error> {
  const error = await attempt.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(Error);
  // One line for the operator, without texts of the server.
  expect((error as Error).message).toMatch(/^[^\n]+$/);
  expect((error as Error).message).not.toContain(double.token);
  return error as Error;
}

describe('a root key in a transit engine', () => {
  it('wraps and unwraps, also for a process that starts later', async () => {
    const provider = await keyOf().newest();
    const wrapped = await provider.wrap(bytes, aad);
    expect(wrapped.toString()).toMatch(/^vault:v1:/);
    expect(await provider.unwrap(wrapped, aad)).toEqual(bytes);
    const later = await keyOf().find(provider.id);
    expect(later?.id).toBe(provider.id);
    expect(await later?.unwrap(wrapped, aad)).toEqual(bytes);
  });

  it('opens neither another binding, nor an altered key, nor a key that another key wrapped', async () => {
    const provider = await keyOf().newest();
    const wrapped = await provider.wrap(bytes, aad);
    await expect(provider.unwrap(wrapped, Buffer.from('tenanT'))).rejects.toThrow(SealBrokenError);
    const body = Buffer.from(wrapped.toString().slice('vault:v1:'.length), 'base64');
    body[20] = (body[20] ?? 0) ^ 1;
    const altered = Buffer.from(`vault:v1:${body.toString('base64')}`);
    await expect(provider.unwrap(altered, aad)).rejects.toThrow(SealBrokenError);
    await expect(provider.unwrap(wrapped.subarray(0, 12), aad)).rejects.toThrow(SealBrokenError);
    double.keys.create('other');
    const other = await keyOf({ key: 'other' }).newest();
    await expect(other.unwrap(wrapped, aad)).rejects.toThrow(SealBrokenError);
    const local = environmentRootKey(randomBytes(32).toString('hex'));
    await expect(provider.unwrap(await local.wrap(bytes, aad), aad)).rejects.toThrow(SealBrokenError);
  });

  it('has an id for each version, which wraps by that version only, and is found until the version is removed', async () => {
    const first = await keyOf().newest();
    double.keys.rotate('vault');
    const second = await keyOf().newest();
    expect(second.id).not.toBe(first.id);
    expect((await first.wrap(bytes, aad)).toString()).toMatch(/^vault:v1:/);
    const wrapped = await second.wrap(bytes, aad);
    expect(wrapped.toString()).toMatch(/^vault:v2:/);
    await expect(first.unwrap(wrapped, aad)).rejects.toThrow(SealBrokenError);
    expect((await keyOf().find(first.id))?.id).toBe(first.id);
    const old = await first.wrap(bytes, aad);
    double.keys.setMinDecryptionVersion('vault', 2);
    expect(await keyOf().find(first.id)).toBeUndefined();
    const refused = await failureOf(first.unwrap(old, aad));
    expect(refused).toBeInstanceOf(RootKeyUnusableError);
    expect(refused.message).toContain('later minimum');
  });

  it('is distinguished from a key of the same name that was made at another time or has another type', async () => {
    const { id } = await keyOf().newest();
    double.keys.create('vault');
    expect(await keyOf().find(id)).toBeUndefined();
    expect(await keyOf().find('local:0123456789abcdef')).toBeUndefined();
    expect(await keyOf().find('transit:other:v1:1')).toBeUndefined();
  });

  it('is requested in its namespace, below a path', async () => {
    await keyOf({ namespace: 'team/a' }).newest();
    expect(double.calls).toContain('GET /v1/transit/keys/vault in team/a');
    const refused = await failureOf(keyOf({ url: `${double.url}/bao/`, mount: 'kms/transit' }).newest());
    expect(double.calls).toContain('GET /bao/v1/kms/transit/keys/vault');
    expect(refused.message).toContain('has no such key (404)');
  });

  it('is reached over https only with the certificate authority of the setting', async () => {
    const secure = await startTransitDouble({ tls: true });
    onTestFinished(() => secure.down());
    secure.keys.create('vault');
    const options = { url: secure.url, token: secure.token };
    await keyOf({ ...options, caFile: transitAuthorityFile }).newest();
    const seen = secure.calls.length;
    const refused = await failureOf(keyOf(options).newest());
    expect(refused).toBeInstanceOf(RootKeyUnusableError);
    expect(refused.message).toMatch(/a certificate that is not trusted \(\w+\)/);
    expect(secure.calls).toHaveLength(seen);
  });
});

describe('a token', () => {
  it('is read from its file at each use', async () => {
    const directory = await mkdtemp(path.join(tmpdir(), 'transit-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const tokenFile = path.join(directory, 'token');
    await writeFile(tokenFile, `${double.token}\n`);
    const provider = await keyOf({ token: undefined, tokenFile }).newest();
    double.token = 'renewed';
    expect(await failureOf(provider.wrap(bytes, aad))).toBeInstanceOf(RootKeyUnusableError);
    await writeFile(tokenFile, 'renewed');
    await provider.wrap(bytes, aad);
    await writeFile(tokenFile, 'two\nlines');
    const refused = await failureOf(provider.wrap(bytes, aad));
    expect(refused.message).toBe('transit: its token is empty or not a token');
    await rm(tokenFile);
    expect((await failureOf(provider.wrap(bytes, aad))).message).toContain('cannot be read: ENOENT');
  });

  it.each([/keys/, /encrypt/, /decrypt/])(
    'without the right to %s is reported at once, without showing the token',
    async (deny) => {
      double.faults.deny = deny;
      const refused = await failureOf(keyOf().newest());
      expect(refused).toBeInstanceOf(RootKeyUnusableError);
      expect(refused.message).toMatch(
        /^root key: transit 127\.0\.0\.1:\d+\/transit\/vault refuses the token \(403\)/,
      );
      expect(double.calls.filter((call) => deny.test(call))).toHaveLength(1);
    },
  );
});

describe('a transit engine', () => {
  let provider: RootKeyProvider;
  beforeEach(async () => {
    provider = await keyOf().newest();
  });

  it('that fails for a moment gets the request again', async () => {
    double.faults.failNext = [500, 429, 503, 502];
    expect(await provider.unwrap(await provider.wrap(bytes, aad), aad)).toEqual(bytes);
    expect(double.faults.failNext).toEqual([]);
  });

  it('that is restarted during a request is found again', async () => {
    double.faults.hang = true;
    const wrapped = provider.wrap(bytes, aad);
    const asked = double.calls.length;
    await waitUntil(() => double.calls.length > asked);
    await double.down();
    double.faults.hang = false;
    await double.up();
    expect(await provider.unwrap(await wrapped, aad)).toEqual(bytes);
  });

  it('that is sealed is waited for, and reported when it stays sealed', async () => {
    double.faults.sealed = true;
    const refused = await failureOf(provider.wrap(bytes, aad));
    expect(refused).toBeInstanceOf(RootKeyUnavailableError);
    expect(refused.message).toMatch(/is sealed \(503\); try again later$/);
    expect(double.calls.filter((call) => call.includes('encrypt')).length).toBeGreaterThan(2);
  });

  it.each([
    ['does not answer', () => (double.faults.hang = true), 'does not answer in time'],
    ['is not there', () => double.down(), 'cannot be reached (ECONNREFUSED)'],
    [
      'asks for a pause that is too long',
      () => Object.assign(double.faults, { failNext: [429], retryAfterSeconds: 3600 }),
      'answers 429',
    ],
  ])('that %s ends in an error that says so', async (_name, fail, words) => {
    await fail();
    const refused = await failureOf(provider.wrap(bytes, aad));
    expect(refused).toBeInstanceOf(RootKeyUnavailableError);
    expect(refused.message).toContain(words);
  });

  it.each([
    ['that is a standby', () => (double.faults.redirectTo = 'http://127.0.0.1:1'), 'sends elsewhere (307)'],
    [
      'that is something else',
      () => (double.faults.garbled = true),
      'does not answer as a transit engine does',
    ],
    ['that binds nothing', () => (double.faults.ignoreAssociatedData = true), 'ignores associated data'],
    [
      'whose key does not authenticate',
      () => double.keys.create('vault', 'aes128-cbc'),
      'must be a key of type',
    ],
  ])('%s is refused, once and for all', async (_name, fail, words) => {
    fail();
    const refused = await failureOf(keyOf().newest());
    expect(refused).toBeInstanceOf(RootKeyUnusableError);
    expect(refused.message).toContain(words);
  });
});

describe('options', () => {
  it.each<[string, Partial<TransitOptions>]>([
    ['no URL', { url: 'bao:8200' }],
    ['http to another machine', { url: 'http://bao.example:8200' }],
    ['credentials in the URL', { url: 'https://user:secret@bao.example' }],
    ['a query', { url: 'https://bao.example/?a=secret' }],
    ['a key that is a path', { key: '../secret' }],
    ['a mount that climbs', { mount: '../secret' }],
    ['a namespace that climbs', { namespace: 'team/..' }],
    ['two tokens', { tokenFile: '/secret' }],
    ['no token', { token: undefined }],
  ])('with %s are refused, in one line without the value', (_name, overrides) => {
    const attempt = () => keyOf(overrides);
    expect(attempt).toThrow(RootKeyUnusableError);
    expect(attempt).toThrow(/^transit: (?!.*secret)[^\n]+$/);
  });
});

import { expect, it } from 'vitest';
import { streams } from '../src/index.ts';

const tenantId = '7d9f0c5e-4a53-4b0e-9a55-0a3c1d2e4f60';
const nameOf = (id: string): string => streams.token(tenantId, id);

it('the stream of every id of 3 to 400 characters has a name that stores take, and a name of its own', () => {
  const ids = [
    'abc',
    '漢'.repeat(400),
    `${'漢'.repeat(399)}字`,
    '😀'.repeat(200),
    'ü'.repeat(400),
    '"'.repeat(400),
    'a'.repeat(400),
  ];
  const names = ids.map(nameOf);
  expect(names.filter((name) => !/^[\x20-\x7e]{1,512}$/.test(name))).toEqual([]);
  expect(new Set(names).size).toBe(ids.length);
});

it('the stream of an id that looks like the hash of a long one is another', () => {
  const long = nameOf('漢'.repeat(400));
  const [, hash = ''] = long.split(`${tenantId}.`);
  expect(hash).toMatch(/^sha256:/);
  expect(nameOf(hash)).not.toBe(long);
});

it('the stream of a short id is named by the id, as in every release', () => {
  expect(nameOf('my token ü')).toBe(`token-${tenantId}.my%20token%20%C3%BC`);
});

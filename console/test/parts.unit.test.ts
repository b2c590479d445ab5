import { generateKeyPairSync, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { csvCell } from '../src/screens/audit/csv.ts';
import { heatIntervalOf, intervalOf, rangeOf, startsOf } from '../src/screens/audit/range.ts';
import { searchQueryOf } from '../src/screens/tokens/query.ts';
import { verifyCertificate } from '../src/screens/tokens/verify-certificate.ts';

describe('a cell of an exported log', () => {
  it('is quoted where CSV needs it, and is not a formula in a spreadsheet', () => {
    expect(csvCell('plain')).toBe('plain');
    expect(csvCell('a,"b"\n')).toBe('"a,""b""\n"');
    expect(csvCell('=HYPERLINK("http://evil")')).toBe(`"'=HYPERLINK(""http://evil"")"`);
    for (const start of ['+', '-', '@', '\t']) expect(csvCell(`${start}1`)).toBe(`'${start}1`);
  });
});

describe('the range of the audit', () => {
  const now = new Date('2026-03-05T10:20:30Z');
  const [from, to] = ['2026-03-01T00:00:00.000Z', '2026-03-02T00:00:00.000Z'];

  it('is taken from the address, and is the last day when the address has none', () => {
    expect(rangeOf({ from, to }, now)).toEqual({ from: new Date(from), to: new Date(to) });
    for (const wrong of [{}, { from: to, to: from }, { from: 'x', to }, { range: 'x' }]) {
      expect(rangeOf(wrong, now)).toEqual({ from: new Date('2026-03-04T10:20:30Z'), to: now });
    }
    expect(rangeOf({ range: '1h' }, now).from).toEqual(new Date('2026-03-05T09:20:30Z'));
  });

  it('is divided into suitable intervals, and has exactly their starts', () => {
    expect(['1h', '24h', '7d', '30d'].map((range) => intervalOf(rangeOf({ range }, now)))).toEqual([
      'minute',
      'hour',
      'hour',
      'day',
    ]);
    expect(heatIntervalOf(rangeOf({ range: '30d' }, now))).toBe('day');
    expect(startsOf(rangeOf({ range: '24h' }, now), 'hour')).toHaveLength(25);
    expect(startsOf({ from: new Date(from), to: new Date(to) }, 'hour')).toHaveLength(24);
  });
});

describe('the filters of tokens', () => {
  it('are converted to a search in which no value can add a term', () => {
    const filters = { type: 'card', container: '/pci', from: '2026-01-01', to: '' };
    expect(searchQueryOf(filters, { key: 'a b:c', value: 'x" OR type:"bank\\' })).toBe(
      'type:card AND container:"/pci/*" AND created_at:["2026-01-01" TO *] AND metadata.a\\ b\\:c:"x\\" OR type:\\"bank\\\\"',
    );
    expect(searchQueryOf({}, { key: '', value: '' })).toBe('');
  });
});

describe('an erasure certificate', () => {
  const { privateKey, publicKey: pair } = generateKeyPairSync('ed25519');
  const publicKey = pair.export({ format: 'jwk' }).x ?? '';
  const event = {
    type: 'TokenDeleted',
    id: 'e',
    stream: 's',
    revision: 1,
    position: '7',
    occurred_at: 't',
    hash: 'h',
  };
  const unsigned = {
    format: 'token-vault erasure certificate 1',
    tenant_id: 'tenant',
    token_id: 'token',
    token_type: 'card',
    erased_by: event,
    destroyed_keys: [{ key_id: 'k', sealed: ['data'], decided_by: event }],
    verified_at: 't',
    public_key: publicKey,
  };
  const signature = sign(null, Buffer.from(JSON.stringify([unsigned.format, unsigned])), privateKey);
  const certificate = { ...unsigned, signature: signature.toString('base64url') };
  const isValid = async (changed: object, key = publicKey) =>
    (await verifyCertificate(JSON.stringify({ ...certificate, ...changed }), key, 'token')).isValid;

  it('is valid as it was signed, also when its fields are in another order', async () => {
    expect(await isValid({})).toBe(true);
    const turned = Object.fromEntries(Object.entries(certificate).reverse());
    expect((await verifyCertificate(JSON.stringify(turned), publicKey, 'token')).isValid).toBe(true);
  });

  it('is not valid when a part of it was changed, or it belongs to another key or token', async () => {
    for (const changed of [
      { token_type: 'bank' },
      { erased_by: { ...event, position: '8' } },
      { destroyed_keys: [] },
      { note: 'not signed' },
      { signature: certificate.signature.replace(/^./, (first) => (first === 'A' ? 'B' : 'A')) },
      { signature: '' },
      { public_key: 'AAAA' },
    ]) {
      expect([changed, await isValid(changed)]).toEqual([changed, false]);
    }
    expect(await isValid({}, 'AAAA')).toBe(false);
    expect((await verifyCertificate(JSON.stringify(certificate), publicKey, 'other')).isValid).toBe(false);
    expect((await verifyCertificate('{', publicKey, 'token')).isValid).toBe(false);
  });
});

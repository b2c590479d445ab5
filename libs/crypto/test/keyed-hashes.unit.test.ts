import { createHash, createHmac, hkdfSync } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeBase58, equalHashes, generateApiKey, hashApiKey, secret } from '../src/index.ts';
import { frame } from '../src/framing.ts';
import { randomOf } from '../src/random.ts';
import { createTenantHashes } from '../src/tenant-hashes.ts';

const hashes = createTenantHashes(Buffer.alloc(32, 1));
const others = createTenantHashes(Buffer.alloc(32, 2));

describe('a frame', () => {
  it('differs for every two different lists', () => {
    const lists = fc.array(fc.string({ unit: fc.constantFrom('', 'a', 'b', '\0', '\x01', 'é') }), {
      maxLength: 4,
    });
    fc.assert(
      fc.property(lists, lists, (left, right) => {
        expect(frame(left).equals(frame(right))).toBe(JSON.stringify(left) === JSON.stringify(right));
      }),
      { numRuns: 2000 },
    );
  });

  it('refuses text with lone surrogates, which has no UTF-8 of its own', () => {
    expect(() => frame(['\ud800'])).toThrow(TypeError);
  });
});

describe('a fingerprint', () => {
  it('is HMAC-SHA-256 under a derived key, in base 58', () => {
    const info = Buffer.from(
      '00000003' +
        '0000000b' +
        Buffer.from('token-vault').toString('hex') +
        '00000001' +
        '31' +
        '0000000b' +
        Buffer.from('fingerprint').toString('hex'),
      'hex',
    );
    const key = Buffer.from(hkdfSync('sha256', Buffer.alloc(32, 1), '', info, 32));
    const domain =
      '00000002' +
      '00000004' +
      Buffer.from('card').toString('hex') +
      '00000005' +
      Buffer.from('utf-8').toString('hex');
    const mac = createHmac('sha256', key).update(domain, 'hex').update('4242').digest('hex');
    let number = BigInt(`0x${mac}`);
    let text = '';
    for (; number > 0n; number /= 58n) {
      text = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'.charAt(Number(number % 58n)) + text;
    }
    expect(hashes.fingerprint('card', '4242')).toBe(text.padStart(43, '1'));
  });

  it('is the same for the same tenant, type and value, in any representation of the value', () => {
    expect(hashes.fingerprint('card', secret('4242'))).toBe(hashes.fingerprint('card', '4242'));
  });

  it('differs by tenant, type, value and case', () => {
    const made = [
      hashes.fingerprint('card', 'a'),
      others.fingerprint('card', 'a'),
      hashes.fingerprint('bank', 'a'),
      hashes.fingerprint('card', 'A'),
      hashes.fingerprint('carda', ''),
      hashes.fingerprint('card', '\ud800'),
      hashes.fingerprint('card', '\ud801'),
      hashes.fingerprint('card', '\ufffd'),
    ];
    expect(new Set(made).size).toBe(made.length);
  });

  it('has 43 or 44 characters of base 58 for any value', () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        expect(hashes.fingerprint('token', value)).toMatch(/^[1-9A-HJ-NP-Za-km-z]{43,44}$/);
      }),
    );
  });
});

describe('a blind index', () => {
  it.each([
    ['Jane', 'jANE'],
    ['straße', 'STRASSE'],
    ['ΟΔΟΣ', 'οδος'],
    ['ΟΔΟΣ', 'οδοσ'],
    ['\u00e9', 'E\u0301'],
  ])('is the same for %s and %s', (left, right) => {
    expect(hashes.blindIndex('data', left)).toBe(hashes.blindIndex('data', right));
  });

  it('differs by tenant, field and value, and from a fingerprint', () => {
    const made = [
      hashes.blindIndex('data', 'jane'),
      others.blindIndex('data', 'jane'),
      hashes.blindIndex('name', 'jane'),
      hashes.blindIndex('data', 'jane '),
      hashes.blindIndex('data', 'jané'),
      hashes.fingerprint('data', 'jane'),
    ];
    expect(new Set(made).size).toBe(made.length);
  });
});

describe('a MAC key', () => {
  it('has 32 bytes of its own for each purpose and tenant', () => {
    const made = [hashes.macKey('idempotency'), hashes.macKey('audit'), others.macKey('idempotency')];
    expect(new Set(made.map((key) => key.export().toString('hex'))).size).toBe(3);
    expect(made.map((key) => key.symmetricKeySize)).toEqual([32, 32, 32]);
    expect(hashes.macKey('audit').equals(hashes.macKey('audit'))).toBe(true);
  });
});

describe('base 58', () => {
  it.each([
    ['', ''],
    ['00', '1'],
    ['73696d706c792061206c6f6e6720737472696e67', '2cFupjhnEsSn59qHXstmK2ffpLv2'],
    ['516b6fcd0f', 'ABnLTmg'],
    [
      'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
      'JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG',
    ],
  ])('of %s is %s', (hex, text) => {
    expect(encodeBase58(Buffer.from(hex, 'hex'), 0)).toBe(text);
  });

  it('of 32 zeros is 43 ones', () => {
    expect(encodeBase58(Buffer.alloc(32), 43)).toBe('1'.repeat(43));
  });
});

describe('an API key', () => {
  it('names its type and carries 24 random base-58 characters', () => {
    for (const type of ['pub', 'pvt', 'mgt', 'ses', 'prx'] as const) {
      expect(generateApiKey(type)).toMatch(new RegExp(`^key_${type}_[1-9A-HJ-NP-Za-km-z]{24}$`));
    }
  });

  it('uses every character equally often', () => {
    const counts = new Map<string, number>();
    for (let index = 0; index < 10_000; index += 1) {
      for (const character of generateApiKey('pvt').slice(8))
        counts.set(character, (counts.get(character) ?? 0) + 1);
    }
    const expected = 240_000 / 58;
    let chiSquare = 0;
    for (const count of counts.values()) chiSquare += (count - expected) ** 2 / expected;
    // 57 degrees of freedom: 133 is exceeded once in 10^7 runs. A modulo bias of 256 % 58 gives more than 5,000.
    expect(counts.size).toBe(58);
    expect(chiSquare).toBeLessThan(133);
  });

  it('is stored as its SHA-256, which compares equal to itself only', () => {
    const hash = hashApiKey('key_pvt_x');
    expect(hash).toBe(createHash('sha256').update('key_pvt_x').digest('hex'));
    expect(equalHashes(hash, hashApiKey('key_pvt_x'))).toBe(true);
    expect(equalHashes(hash, hashApiKey('key_pvt_y'))).toBe(false);
  });

  it.each(['', 'zz', '0'.repeat(63), '0'.repeat(65), 'g'.repeat(64)])('has no hash %j', (text) => {
    expect(equalHashes(text, text)).toBe(false);
  });
});

describe('pooled randomness', () => {
  it('gives no bytes twice and does not change the given bytes', () => {
    const made = Array.from({ length: 2000 }, (_, index) => randomOf(12 + (index % 21)));
    expect(new Set(made.map((bytes) => bytes.toString('hex', 0, 12))).size).toBe(2000);
    expect(made.filter((bytes) => bytes.subarray(-8).equals(Buffer.alloc(8)))).toEqual([]);
    expect(() => randomOf(4097)).toThrow(RangeError);
  });
});

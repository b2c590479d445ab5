import { createCipheriv, randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '@token-vault/contracts';
import { DataKey, isSealedValue, keyIdOf, open, seal, SealBrokenError, secret } from '../src/index.ts';

const keyId = '0190a000-0000-7000-8000-000000000001';
const tenantId = '11111111-1111-4111-8111-111111111111';
const context = { tenantId, entity: 'token:abc', field: 'data' };

function keyOf(
  bytes = Buffer.alloc(32, 7),
  overrides: Partial<typeof context> & { id?: string } = {},
): DataKey {
  const { id = keyId, tenantId: tenant = tenantId, entity = context.entity } = overrides;
  return new DataKey({ id, tenantId: tenant, entity, purpose: 'data' }, Buffer.from(bytes));
}

/** Written by hand from the description of the format, without code of the library. */
function independentlySealed(key: Buffer, iv: Buffer, json: string): string {
  const parts = ['sv1', keyId, tenantId, 'token:abc', 'data'].map((part) => Buffer.from(part, 'utf8'));
  const length = (value: number): Buffer => Buffer.from([0, 0, value >> 8, value & 255]);
  const aad = Buffer.concat([length(parts.length), ...parts.flatMap((part) => [length(part.length), part])]);
  const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(aad);
  const body = Buffer.concat([iv, cipher.update(json, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  const text = body.toString('base64').replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  return `sv1.${keyId}.${text}`;
}

describe('a sealed value', () => {
  const bytes = Buffer.from(Array.from({ length: 32 }, (_, index) => index));
  const iv = Buffer.from('cafebabefacedbaddecaf888', 'hex');
  // AES-256-GCM of `{"number":"4242424242424242"}`, computed outside this project with Python's cryptography package.
  const vector = `sv1.${keyId}.yv66vvrO263eyviI8YHOU8cYKmlkMX_pSSm7Cz8U8mXtLVhAfOs2U8PU0GPPSWVaWr-DQoW-kGlV`;

  it('opens a vector frozen when the format was released', () => {
    expect(open(keyOf(bytes), context, vector).expose()).toEqual({
      number: '4242424242424242',
    });
  });

  it('opens values that an independent implementation sealed', () => {
    const made = independentlySealed(bytes, iv, '{"number":"4242424242424242"}');
    expect(made).toBe(vector);
  });

  it('opens to any JSON value that went in, under its own key and context only', () => {
    const text = fc.string({ unit: 'binary' });
    fc.assert(
      fc.property(
        fc.jsonValue(),
        text,
        text,
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        (value, a, b, raw) => {
          const key = keyOf(Buffer.from(raw), { entity: a });
          const place = { tenantId, entity: a, field: b };
          const sealed = seal(key, place, secret(value as Json));
          expect(isSealedValue(sealed)).toBe(true);
          expect(keyIdOf(sealed)).toBe(keyId);
          expect(open(key, place, sealed).expose()).toEqual(JSON.parse(JSON.stringify(value)));
          expect(() => open(key, { ...place, field: `${b}x` }, sealed)).toThrow(SealBrokenError);
        },
      ),
    );
  });

  it('keeps lone surrogates and a __proto__ property', () => {
    const value = JSON.parse('{"__proto__":{"x":1},"text":"\\ud800"}') as Json;
    const opened = open(keyOf(), context, seal(keyOf(), context, secret(value)));
    expect(JSON.stringify(opened.expose())).toBe(JSON.stringify(value));
  });

  it('has a fresh iv each time', () => {
    const key = keyOf();
    const ivs = Array.from({ length: 500 }, () => seal(key, context, secret('same')).slice(41, 57));
    expect(new Set(ivs).size).toBe(500);
  });

  it('holds half a megabyte', () => {
    const value = randomBytes(256 * 1024).toString('hex');
    expect(open(keyOf(), context, seal(keyOf(), context, secret(value))).expose()).toBe(value);
  });

  it('cannot be opened when any character is altered', () => {
    const sealed = seal(keyOf(), context, secret('4242'));
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ ';
    for (let index = 0; index < sealed.length; index += 1) {
      for (const character of alphabet) {
        if (character === sealed[index]) continue;
        const altered = `${sealed.slice(0, index)}${character}${sealed.slice(index + 1)}`;
        expect(() => open(keyOf(), context, altered), altered).toThrow(SealBrokenError);
      }
    }
  });

  it('cannot be opened when any bit of iv, ciphertext or tag is flipped', () => {
    const sealed = seal(keyOf(), context, secret('4242'));
    const body = Buffer.from(sealed.slice(41), 'base64url');
    for (let bit = 0; bit < body.length * 8; bit += 1) {
      const altered = Buffer.from(body);
      altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const value = sealed.slice(0, 41) + altered.toString('base64url');
      expect(() => open(keyOf(), context, value)).toThrow(SealBrokenError);
    }
  });

  it('cannot be opened when it is cut or lengthened', () => {
    const sealed = seal(keyOf(), context, secret('4242'));
    for (let length = 0; length < sealed.length; length += 1) {
      expect(() => open(keyOf(), context, sealed.slice(0, length))).toThrow(SealBrokenError);
    }
    for (const tail of ['A', 'AAAA', '=', '\n', '.']) {
      expect(() => open(keyOf(), context, sealed + tail)).toThrow(SealBrokenError);
    }
  });

  const otherTenant = '22222222-2222-4222-8222-222222222222';
  const otherKeyId = '0190a000-0000-7000-8000-000000000002';
  const moves: [string, DataKey, typeof context][] = [
    ['another tenant', keyOf(undefined, { tenantId: otherTenant }), { ...context, tenantId: otherTenant }],
    ['another entity', keyOf(undefined, { entity: 'token:abd' }), { ...context, entity: 'token:abd' }],
    ['another field', keyOf(), { ...context, field: 'cvc' }],
    ['another key with the same id', keyOf(Buffer.alloc(32, 8)), context],
    ['a context that is not the key’s', keyOf(undefined, { entity: 'token:abd' }), context],
    [
      'parts cut elsewhere',
      keyOf(undefined, { entity: 'token:ab' }),
      { ...context, entity: 'token:ab', field: 'cdata' },
    ],
  ];
  it.each(moves)('cannot be opened when it is moved to %s', (_name, key, place) => {
    const sealed = seal(keyOf(), context, secret('4242'));
    expect(() => open(key, place, sealed)).toThrow(SealBrokenError);
  });

  it('cannot be opened when its key id is replaced, even by that of a key with the same bytes', () => {
    const sealed = seal(keyOf(), context, secret('4242')).replace(keyId, otherKeyId);
    expect(() => open(keyOf(undefined, { id: otherKeyId }), context, sealed)).toThrow(SealBrokenError);
    expect(() => open(keyOf(), context, sealed)).toThrow(SealBrokenError);
  });

  it.each(['', 'sv1', 'sv1..', `sv2.${keyId}.AAAA`, `sv1.${keyId}.`, `sv1.${keyId}.AAAA`, '\0', 'null'])(
    'is not %j',
    (garbage) => {
      expect(isSealedValue(garbage)).toBe(false);
      expect(() => open(keyOf(), context, garbage)).toThrow(SealBrokenError);
      expect(() => keyIdOf(garbage)).toThrow(SealBrokenError);
    },
  );

  it('gives an error without data when it cannot be opened', () => {
    const sealed = seal(keyOf(), context, secret('4242'));
    const error = captured(() => open(keyOf(), { ...context, field: 'x' }, sealed));
    expect(error).toMatchObject({ code: 'seal_broken', message: 'a sealed value did not authenticate' });
    expect(inspect(error)).not.toMatch(/4242|token:abc|sv1\./);
  });
});

describe('a data key', () => {
  it('shows its bytes in no text form', () => {
    const bytes = randomBytes(32);
    const key = keyOf(bytes);
    const shown = inspect(key, { showHidden: true, depth: null }) + JSON.stringify(key);
    expect(shown).toContain(keyId);
    expect(shown).not.toContain(bytes.toString('hex').slice(0, 8));
    expect(shown).not.toContain(bytes[0] + ',' + bytes[1]);
  });

  it('seals nothing for another entity or tenant', () => {
    for (const place of [
      { ...context, entity: 'token:x' },
      { ...context, tenantId: 'x' },
    ]) {
      expect(() => seal(keyOf(), place, secret('4242'))).toThrow(TypeError);
    }
  });

  it('seals no value that is not JSON', () => {
    expect(() => seal(keyOf(), context, secret(undefined as unknown as Json))).toThrow(TypeError);
  });

  it('is zeroed by a wipe, and then neither seals nor opens', () => {
    const bytes = randomBytes(32);
    const key = new DataKey({ id: keyId, tenantId, entity: context.entity, purpose: 'data' }, bytes);
    const sealed = seal(key, context, secret('4242'));
    key.wipe();
    expect(bytes.equals(Buffer.alloc(32))).toBe(true);
    expect(() => seal(key, context, secret('4242'))).toThrow('wiped');
    expect(() => open(key, context, sealed)).toThrow('wiped');
  });
});

function captured(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}

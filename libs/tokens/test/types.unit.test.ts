import { tokenTypes, ValidationError, type Json, type TokenType } from '@token-vault/contracts';
import {
  evaluateFingerprint,
  evaluateSearchIndexes,
  renderMask,
  checkMask,
  createExpressions,
  createInlineWorkers,
} from '@token-vault/expressions';
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { passesAbaChecksum, passesLuhn } from '../src/types/checksums.ts';
import { typeDefaults } from '../src/types/defaults.ts';
import { validateData } from '../src/types/validate-data.ts';

const card = '4242424242424242';
const routing = '021000021';

describe('the data of each type', () => {
  it.each<[TokenType, Json]>([
    ['token', 'anything'], ['token', 0], ['token', false], ['token', ''], ['token', [null]], ['token', { a: { b: [1] } }],
    ['card', { number: card }], ['card', { number: '378282246310005', expiration_month: 12, expiration_year: 2031, cvc: '1234' }],
    ['card', { number: '6011000990139424', expiration_month: 1, cvc: '000' }],
    ['bank', { routing_number: routing, account_number: '1' }], ['bank', { routing_number: '110000000', account_number: '12345678901234567' }],
    ['card_number', card], ['card_number', '4222222222222'], ['card_number', '6304000000000000000'],
    ['us_bank_account_number', '123'], ['us_bank_account_number', '12345678901234567'],
    ['us_bank_routing_number', routing],
    ['social_security_number', '123456789'], ['social_security_number', '123-45-6789'],
    ['employer_id_number', '123456789'], ['employer_id_number', '12-3456789'],
  ])('%s may be %j', (type, data) => {
    expect(validateData(type, data)).toEqual(data);
  }); // prettier-ignore

  it.each<[TokenType, Json, string]>([
    ['card', card, 'data'], ['card', [], 'data'], ['card', {}, 'data.number'], ['card', { number: 4242424242424242 }, 'data.number'],
    ['card', { number: '4242 4242 4242 4242' }, 'data.number'], ['card', { number: '4242424242424241' }, 'data.number'],
    ['card', { number: '424242424242' }, 'data.number'], ['card', { number: '42424242424242424242' }, 'data.number'],
    ['card', { number: '４２４２４２４２４２４２４２４２' }, 'data.number'], ['card', { number: `${card}\n` }, 'data.number'],
    ['card', { number: card, expiration_month: 0 }, 'data.expiration_month'], ['card', { number: card, expiration_month: 13 }, 'data.expiration_month'],
    ['card', { number: card, expiration_month: 1.5 }, 'data.expiration_month'], ['card', { number: card, expiration_month: '04' }, 'data.expiration_month'],
    ['card', { number: card, expiration_year: 31 }, 'data.expiration_year'], ['card', { number: card, expiration_year: 20311 }, 'data.expiration_year'],
    ['card', { number: card, cvc: '12' }, 'data.cvc'], ['card', { number: card, cvc: '12345' }, 'data.cvc'], ['card', { number: card, cvc: 123 }, 'data.cvc'],
    ['bank', {}, 'data.routing_number'], ['bank', { routing_number: '021000022', account_number: '1' }, 'data.routing_number'],
    ['bank', { routing_number: '02100002', account_number: '1' }, 'data.routing_number'],
    ['bank', { routing_number: routing, account_number: '' }, 'data.account_number'],
    ['bank', { routing_number: routing, account_number: '123456789012345678' }, 'data.account_number'],
    ['card_number', '4242424242424241', 'data'], ['card_number', { number: card }, 'data'], ['card_number', 4242424242424242, 'data'],
    ['us_bank_account_number', '12', 'data'], ['us_bank_account_number', '123456789012345678', 'data'], ['us_bank_account_number', '12a', 'data'],
    ['us_bank_routing_number', '021000022', 'data'], ['us_bank_routing_number', '0210000210', 'data'],
    ['social_security_number', '12345678', 'data'], ['social_security_number', '12-3456789', 'data'], ['social_security_number', '123-456789', 'data'],
    ['employer_id_number', '123-45-6789', 'data'], ['employer_id_number', '1234567890', 'data'], ['employer_id_number', 123456789, 'data'],
  ])('%s may not be %j: %s', (type, data, field) => {
    expect(() => validateData(type, data)).toThrow(expect.objectContaining({ errors: expect.objectContaining({ [field]: expect.any(Array) as unknown }) as unknown }) as Error);
  }); // prettier-ignore

  it.each([
    [{}, { 'data.number': ['is required'] }],
    [{ number: 1 }, { 'data.number': ['must be a string'] }],
    [{ number: card, expiration_month: 13 }, { 'data.expiration_month': ['must be from 1 to 12'] }],
    [{ number: card, expiration_month: 0 }, { 'data.expiration_month': ['must be from 1 to 12'] }],
    [{ number: card, expiration_year: 2000.5 }, { 'data.expiration_year': ['must be a whole number'] }],
  ])('of a card that is %j is told what is wrong in words of the vault', (data, errors) => {
    expect(() => validateData('card', data)).toThrow(expect.objectContaining({ errors }) as Error);
  });

  it('drops fields outside the shape, and fields that are null', () => {
    expect(validateData('card', { number: card, cvc: null, holder: 'x' })).toEqual({ number: card });
  });

  it('is at most 512 KiB as JSON, in bytes', () => {
    expect(() => validateData('token', 'x'.repeat(512 * 1024 - 2))).not.toThrow();
    expect(() => validateData('token', 'x'.repeat(512 * 1024 - 1))).toThrow(ValidationError);
    expect(() => validateData('token', 'ä'.repeat(256 * 1024))).toThrow(ValidationError);
  });

  it('never shows in an error', () => {
    const marked = fc.constantFrom('987654321987', 'hunter2hunter2');
    const value = fc.oneof(
      marked,
      fc.record({ number: marked, cvc: marked, routing_number: marked, account_number: marked }),
      fc.array(marked),
    );
    fc.assert(
      fc.property(fc.constantFrom(...tokenTypes), value, (type, data) => {
        try {
          validateData(type, data);
        } catch (error) {
          expect(JSON.stringify(error) + String((error as Error).stack)).not.toMatch(
            /987654321987|hunter2hunter2/,
          );
        }
      }),
    );
  });
});

describe('checksums', () => {
  it('detect any single wrong digit', () => {
    const digit = fc.nat({ max: 9 });
    const spoil = (digits: string, at: number, by: number): string =>
      digits.slice(0, at) + String((Number(digits[at]) + by) % 10) + digits.slice(at + 1);
    fc.assert(
      fc.property(fc.nat({ max: 15 }), fc.integer({ min: 1, max: 9 }), (at, by) => {
        expect(passesLuhn(spoil(card, at, by))).toBe(false);
        expect(passesAbaChecksum(spoil(routing, at % 9, by))).toBe(false);
      }),
    );
    fc.assert(
      fc.property(fc.array(digit, { minLength: 12, maxLength: 18 }), (digits) => {
        const valid = Array.from({ length: 10 }, (_, last) => passesLuhn(digits.join('') + String(last)));
        expect(valid.filter(Boolean)).toHaveLength(1);
      }),
    );
  });
});

describe('the defaults of each type', () => {
  const masked = 'XXXXX6789';
  it.each<[TokenType, string, Json, Json | undefined, string, string[]]>([
    ['token', '/general/high/', { a: 1 }, undefined, '{"a":1}', []],
    ['card', '/pci/high/', { number: card, expiration_month: 4, expiration_year: 2031 }, { number: 'XXXXXXXXXXXX4242', expiration_month: 4, expiration_year: 2031 }, card, []],
    ['card', '/pci/high/', { number: card }, { number: 'XXXXXXXXXXXX4242', expiration_month: null, expiration_year: null }, card, []],
    ['bank', '/bank/high/', { routing_number: routing, account_number: '123456789' }, { routing_number: routing, account_number: masked }, `123456789|${routing}`, []],
    ['card_number', '/pci/high/', card, 'XXXXXXXXXXXX4242', card, []],
    ['us_bank_account_number', '/bank/high/', '123456789', masked, '123456789', []],
    ['us_bank_routing_number', '/bank/low/', routing, 'XXXXX0021', routing, []],
    ['social_security_number', '/pii/high/', '123-45-6789', 'XXX-XX-6789', '123456789', ['123-45-6789', '123456789', '6789']],
    ['employer_id_number', '/pii/high/', '12-3456789', 'XX-XXX6789', '123456789', ['12-3456789', '123456789', '6789']],
  ])('%s', async (type, container, data, shown, fingerprinted, indexed) => {
    const request = createExpressions(createInlineWorkers()).of({}, { tenantId: 'tenant', applicationId: 'a' });
    const defaults = typeDefaults[type];
    expect(defaults.container).toBe(container);
    if (shown === undefined) expect(defaults.mask).toBeUndefined();
    else expect(renderMask(request, defaults.mask as Json, data)).toEqual(shown);
    if (defaults.mask !== undefined) expect(await checkMask(request, defaults.mask, data)).toEqual({ issues: [], shown });
    expect(await evaluateFingerprint(request, defaults.fingerprintExpression, { data })).toBe(fingerprinted);
    expect(await evaluateSearchIndexes(request, defaults.searchIndexes, data)).toEqual(indexed);
  }); // prettier-ignore

  it('are those of rules.md §3, which has a row for each type', () => {
    const rules = readFileSync(path.resolve(import.meta.dirname, '../../../docs/reference/rules.md'), 'utf8');
    const table = rules.slice(rules.indexOf('## 3.'), rules.indexOf('## 4.'));
    const rows = [...table.matchAll(/^\| (\w+) \| (\/\S+) \|.*\| `(.*?)` \| [^|`]*(?:`|\|$)/gm)];
    const ruled = rows.map(([, type, container, fingerprint = '']) => [type, container, fingerprint.replaceAll('\\|', '|')]);
    const present = tokenTypes.map((type) => [type, typeDefaults[type].container, typeDefaults[type].fingerprintExpression]);
    expect(ruled).toEqual(present);
  }); // prettier-ignore
});

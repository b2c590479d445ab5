import { describe, expect, it } from 'vitest';
import { createTenantHashes } from '../src/tenant-hashes.ts';

const hashes = createTenantHashes(Buffer.alloc(32, 1));
const older = { kind: 'token', texts: ['a'] } as const;
const statement = { ...older, added: ['made in May'] };
const inForm = (form: number, signature: string) => signature.replace(/^m\d/, `m${form}`);

describe('a signature of a statement to which texts were added', () => {
  const signature = hashes.sign(statement, 3);

  it('has the second form, and covers them', () => {
    expect(signature).toMatch(/^m2\.3\./);
    expect(hashes.isSigned(statement, signature)).toBe(true);
    expect(hashes.isSigned({ ...statement, added: ['made in June'] }, signature)).toBe(false);
    expect(hashes.isSigned({ ...statement, added: [] }, signature)).toBe(false);
    expect(hashes.isSigned(older, signature)).toBe(false);
    expect(hashes.isSigned({ ...older, texts: ['a', 'made in May'], added: [] }, signature)).toBe(false);
  });

  it('is not one of the first form', () => {
    expect(hashes.isSigned(statement, inForm(1, signature))).toBe(false);
    expect(hashes.isSigned({ ...older, texts: ['a', 'made in May'] }, inForm(1, signature))).toBe(false);
  });

  it('is accepted without them when an older release made it, in the first form alone', () => {
    const before = hashes.sign(older, 3);
    expect(before).toMatch(/^m1\.3\./);
    expect(hashes.isSigned(statement, before)).toBe(true);
    expect(hashes.isSigned(statement, inForm(2, before))).toBe(false);
    expect(hashes.isSigned(older, inForm(2, before))).toBe(false);
  });
});

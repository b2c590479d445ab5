import type { Principal } from '@token-vault/access';
import { beforeEach, describe, expect, it } from 'vitest';
import { card, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const theirs = { number: '5555555555554444', expiration_month: 1, expiration_year: 2040, cvc: null };
const real = { ...theirs, number: card };
const salted = '{{ data.number }}{{ metadata.salt }}';
const unsalted = '{{ data.number }}';
/** Sees data in this container, or none. */
const caller = (id: string, container?: string): Principal => ({
  ...vault.principal,
  actor: { kind: 'application', id },
  applicationId: id,
  permissions: container === undefined ? ['token:update'] : [],
  rules:
    container === undefined
      ? []
      : [{ priority: 1, container, transform: 'reveal', permissions: ['token:update'] }],
});
const blind = (id = 'blind') => caller(id);
const content = async () => (await vault.stored('tok'))?.content;
const fingerprintOf = async () => {
  const { fingerprint, fingerprint_expression: expression } = (await content()) ?? {};
  return { fingerprint, expression };
};
const none = { fingerprint: undefined, expression: undefined };
const refusedMetadata = { code: 'forbidden', errors: { metadata: [expect.any(String)] } };

/** A token whose fingerprint nobody can guess, because its creator gave it a salt. */
const create = (body: object = {}) =>
  vault.create({
    type: 'card',
    id: 'tok',
    data: { number: card },
    containers: ['/in/'],
    fingerprint_expression: salted,
    metadata: { salt: 'dhf8w7f', other: 'x' },
    ...body,
  });

describe('the salt of the creator', () => {
  beforeEach(() => create({ deduplicate_token: true }));

  it('is not taken away by a caller without sight while its own expression stands', async () => {
    await vault.update('tok', { fingerprint_expression: 'zz', data: theirs }, { as: blind() });
    await vault.update('tok', { metadata: { salt: '' } }, { as: blind() });
    await vault.update('tok', { data: real });
    expect(await fingerprintOf()).toEqual(none);
  });

  it.each([
    ['without sight', () => blind(), { data: theirs }],
    ['that sees the data there', () => caller('in', '/in/'), {}],
  ])('is followed by no default when a caller %s removed the expression', async (_who, as, patch) => {
    await vault.update('tok', { ...patch, fingerprint_expression: null }, { as: as() });
    expect(await content()).toMatchObject({ fingerprint_expression: unsalted });
    await vault.update('tok', { data: real, containers: ['/pci/'] }, { as: caller('home', '/') });
    expect(await fingerprintOf()).toEqual(none);
    await vault.update('tok', { metadata: { other: 'z' } });
    expect(await fingerprintOf()).toEqual(none);
    await vault.update('tok', { deduplicate_token: true });
    expect(await content()).toMatchObject({ fingerprint_expression: unsalted });
  });

  it('is not taken away by a caller that sees the data with a reason only', async () => {
    const { rules, ...as } = caller('in', '/in/');
    const reasoned = rules.map((rule) => ({ ...rule, reason: 'required' as const }));
    const patch = { metadata: { salt: '' } };
    const refused = vault.update('tok', patch, { as: { ...as, rules: reasoned, reason: 'ticket 7' } });
    await expect(refused).rejects.toMatchObject(refusedMetadata);
    await vault.update('tok', patch, { as: caller('in', '/in/') });
  });

  it('is not followed by a default with a part of the data that another caller without sight brings', async () => {
    await vault.update('tok', { data: theirs, fingerprint_expression: 'zz' }, { as: blind() });
    await vault.update('tok', { data: { expiration_month: 3 } }, { as: blind('other') });
    await vault.update('tok', { data: real });
    expect(await fingerprintOf()).toEqual(none);
  });

  it('is its own to change', async () => {
    await vault.update('tok', { metadata: { salt: 'new' } });
    await vault.update('tok', { data: real, containers: ['/pci/'] }, { as: caller('home', '/') });
    expect(await content()).toMatchObject({ fingerprint_expression: salted });
    expect(await content()).not.toHaveProperty('set_without_sight');
  });
});

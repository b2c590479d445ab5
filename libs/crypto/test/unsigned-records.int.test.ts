import { SealBrokenError, type KeyRing } from '../src/index.ts';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { asOlderRelease } from './older-release.ts';
import { setUpRing, type RingSetup } from './ring-setup.ts';

const statement = { kind: 'token', texts: ['a'] } as const;

let setup: RingSetup;
let ring: KeyRing;
let tenantId: string;
beforeAll(async () => {
  setup = await setUpRing();
});
beforeEach(async () => {
  ring = await setup.ring();
  tenantId = await setup.tenant(ring);
});
afterAll(() => setup.end());

const age = () => asOlderRelease({ pool: setup.pool, rootKey: setup.rootKey, keyRing: ring }, tenantId);
const storedForm = async () =>
  (
    await setup.pool.query<{ wrapped: Buffer }>(
      'select wrapped from key_ring.tenant_index_key where tenant_id = $1',
      [tenantId],
    )
  ).rows[0]?.wrapped;

it('a record without a signature is not accepted for a tenant that this release made', async () => {
  const hashes = await ring.hashes(tenantId);
  expect(hashes.isBelieved(statement, null)).toBe(false);
  expect(hashes.isBelieved(statement, hashes.sign(statement, 3))).toBe(true);
  expect(await ring.tenantsThatAcceptUnsigned()).not.toContain(tenantId);
});

it('is accepted for a tenant of an older release until all its records are signed; hashes and rotated keys do not change', async () => {
  const fingerprint = (await ring.hashes(tenantId)).fingerprint('card', '4242');
  await age();
  await ring.rotateTenant(tenantId);
  const before = await ring.hashes(tenantId);
  expect(before.isBelieved(statement, undefined)).toBe(true);
  expect(before.isBelieved(statement, 'm1.0.AAAAAAAAAAAAAAAAAAAAAA')).toBe(false);
  expect(before.isSigned(statement, undefined)).toBe(false);
  expect(await ring.tenantsThatAcceptUnsigned()).toContain(tenantId);
  for (let round = 0; round < 2; round += 1) await ring.refuseUnsigned(tenantId);
  await ring.rotateTenant(tenantId);
  const after = await (await setup.ring()).hashes(tenantId);
  expect(after.isBelieved(statement, undefined)).toBe(false);
  expect(after.fingerprint('card', '4242')).toBe(fingerprint);
  expect(await ring.tenantsThatAcceptUnsigned()).not.toContain(tenantId);
});

it('an attacker who writes the table without the root key cannot undo that', async () => {
  const wrapped = await storedForm();
  const forged = Buffer.concat([Buffer.of(1), wrapped?.subarray(1) ?? Buffer.of()]);
  const write = (bytes: Buffer | undefined) =>
    setup.pool.query('update key_ring.tenant_index_key set wrapped = $2 where tenant_id = $1', [
      tenantId,
      bytes,
    ]);
  await write(forged);
  await expect((await setup.ring()).hashes(tenantId)).rejects.toThrow(SealBrokenError);
  await write(wrapped);
  await expect((await setup.ring()).hashes(tenantId)).resolves.toBeDefined();
});

import type { Application, ApplicationKey } from '@token-vault/contracts';
import { hashApiKey } from '@token-vault/crypto';
import { fieldsOf } from '@token-vault/test-support';
import { beforeEach, expect, it } from 'vitest';
import { refusal, useVault, type CallOptions, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));
let id: string;
beforeEach(async () => {
  const body = { name: 'Shop', type: 'private', permissions: ['token:create'] };
  id = ((await vault.call('createApplication', { body })).body as Application).id;
});

const add = async (options?: CallOptions): Promise<ApplicationKey> =>
  (await vault.call('createApplicationKey', { params: { id }, body: {} }, options)).body as ApplicationKey;
const remove = (keyId: string) => vault.call('deleteApplicationKey', { params: { id, key_id: keyId } });
const added = async () => (await vault.events()).filter(({ type }) => type === 'ApplicationKeyAdded');

it('sixteen keys at once: nine are made, since an application has ten', async () => {
  const made = await Promise.allSettled(Array.from({ length: 16 }, () => add()));
  expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(9);
  expect(made.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))).toEqual(
    Array.from({ length: 7 }, () => expect.objectContaining({ code: 'conflict' }) as unknown),
  );
  expect(await added()).toHaveLength(9);
});

it('a key made again after a lost answer is one key, and the one that is shown works', async () => {
  vault.faults.decide = () => 'after';
  await expect(add({ idempotencyKey: 'k' })).rejects.toThrow('cut off');
  vault.faults.decide = () => undefined;
  const { id: keyId, key = '' } = await add({ idempotencyKey: 'k' });
  const [, last] = await added();
  expect(fieldsOf(last).keys).toEqual([
    expect.objectContaining({ id: keyId, hash: hashApiKey(key) }) as unknown,
  ]);
  expect(JSON.stringify(await vault.events())).not.toContain(key);
});

it('a deletion that is repeated confirms the first one and appends nothing', async () => {
  const { id: keyId } = await add();
  const first = await remove(keyId);
  const count = (await vault.events()).length;
  const again = await remove(keyId);
  expect(again).toMatchObject({ position: first.position, ifConfirmedBefore: { code: 'not_found' } });
  expect(await vault.events()).toHaveLength(count);
  await expect(remove('00000000-0000-4000-8000-0000000000ff')).rejects.toMatchObject(refusal('not_found'));
});

it('two regenerations at once with an overlap keep the first key and that of the earlier regeneration', async () => {
  const regenerate = () =>
    vault.call('regenerateApplicationKey', { params: { id }, query: { overlap: '60' } });
  const made = (await Promise.all([regenerate(), regenerate()])).map(({ body }) => body as Application);
  const last = (await vault.events()).at(-1);
  const { keys, key_hash: main } = fieldsOf(last) as { keys: { hash: string }[]; key_hash: string };
  const live = [main, ...keys.map(({ hash }) => hash)];
  expect(live).toHaveLength(3);
  for (const { key = '' } of made) expect(live).toContain(hashApiKey(key));
});

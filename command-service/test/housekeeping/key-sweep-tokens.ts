import { randomUUID } from 'node:crypto';
import { TokenKeysAbandoned } from '@token-vault/contracts';
import { EventStoreUnavailableError, KeysNotStoredError } from '@token-vault/event-store';
import { expect, it } from 'vitest';
import { systemContext } from '../../src/aggregates/system-context.ts';
import { card } from '../tokens/vault.ts';
import { aToken, type KeySweepTest } from './key-sweep-setup.ts';

/** The sweep of keys of tokens: beside other keys, other writers, other processes and pauses of the sweep. */
export function describeSweptTokens(sweep: KeySweepTest): void {
  const { pass, passes, tokenStream, hasKey, cutOff } = sweep;

  it('leaves the key of a cvc to its own end', async () => {
    const lost = await cutOff('before', { type: 'card', data: { number: card, cvc: '123' } });
    expect(await passes()).toBe(1);
    expect(await sweep.vault.keys()).toContain(`${lost} cvc`);
    expect(await hasKey(lost)).toBe(false);
  });

  it('destroys a key also when a later token has the same id, and leaves that token as it is', async () => {
    const { house, vault } = sweep;
    const lost = await cutOff('before');
    await vault.create({ ...aToken, id: lost });
    await house.settle();
    expect(await passes()).toBe(1);
    expect(await vault.stored(lost)).toMatchObject({ data: 'secret' });
    await vault.update(lost, { data: 'changed' });
    await house.settle();
    expect(await passes()).toBe(0);
    expect(await vault.stored(lost)).toMatchObject({ data: 'changed' });
  });

  it('destroys a key that the release before has abandoned', async () => {
    const { principal, clock, log, pool } = sweep.vault;
    const id = await cutOff('before');
    const { rows } = await pool.query<{ key: string }>(
      'select id as key from key_ring.data_key where tenant_id = $1 and entity = $2',
      [principal.tenant.id, `token:${id}`],
    );
    const abandoned = { token_id: id, abandoned_key_ids: rows.map(({ key }) => key) };
    const context = systemContext(principal.tenant.id, 'key-sweep', clock);
    await log.append(tokenStream(id), [context.event(TokenKeysAbandoned, abandoned)], 'no-stream');
    expect(await passes()).toBe(1);
    expect(await hasKey(id)).toBe(false);
  });

  it('asks the log, not the read model: an unanswered write, and one that the read model lacks, keep their keys', async () => {
    const { house, vault } = sweep;
    const unanswered = await cutOff('after');
    const { id } = await vault.create(aToken);
    await house.settle();
    await house.tamper('delete from token where id = any($1)', [[unanswered, id]]);
    expect(await passes()).toBe(0);
    expect([await vault.stored(unanswered), await vault.stored(id)]).toMatchObject([
      { data: 'secret' },
      { data: 'secret' },
    ]);
  });

  /** A late create. A store that checks keys refuses its append, because its key is missing. Then it is repeated. */
  const lateCreate = (id: string): Promise<unknown> => {
    const create = () => sweep.vault.create({ ...aToken, id });
    const answer = create();
    if (!sweep.checksKeys) return answer;
    return expect(answer).rejects.toThrow(KeysNotStoredError).then(create);
  };

  it('makes a late append meet a conflict on the stream of an ended token, too', async () => {
    const { house, vault } = sweep;
    const { id } = await vault.create({ ...aToken, id: `again-${randomUUID()}` });
    await vault.remove(id);
    let late = 0;
    vault.faults.interpose = async (stream) => {
      // The first append finds that the stream exists. The second one is late.
      if (stream !== tokenStream(id) || (late += 1) !== 2) return;
      await house.settle();
      expect(await passes()).toBe(1);
    };
    await lateCreate(id);
    expect(late).toBeGreaterThan(2);
    expect(await vault.stored(id)).toMatchObject({ data: 'secret' });
  });

  it('keeps the keys of an open transaction', async () => {
    const { house, vault } = sweep;
    const transaction = await vault.begin();
    const { id } = await vault.create(aToken, { transaction });
    await house.settle();
    await house.tamper('delete from token where id = $1', [id]);
    expect(await passes()).toBe(0);
    await vault.end('commit', transaction);
    expect(await vault.stored(id)).toMatchObject({ data: 'secret' });
  });

  it('destroys each key once when two processes believe that they lead', async () => {
    const lost = [await cutOff('before'), await cutOff('before')];
    await pass();
    const [one = 0, other = 0] = await Promise.all([pass(), pass()]);
    expect(one + other).toBe(2);
    for (const id of lost) expect(await hasKey(id)).toBe(false);
  });

  it('leaves keys from before its first pass, and from before a pause', async () => {
    const { pool } = sweep.vault;
    const early = await cutOff('before');
    await pool.query('delete from housekeeping.key_sweep');
    expect((await pass()) + (await passes())).toBe(0);
    const late = await cutOff('before');
    await pool.query(`update housekeeping.key_sweep set noted_at = noted_at - interval '11 minutes'`);
    expect((await pass()) + (await passes())).toBe(0);
    expect([await hasKey(early), await hasKey(late)]).toEqual([true, true]);
    expect(sweep.messages).toEqual([]);
  });

  it('does nothing while the log is away, and goes on then', async () => {
    const lost = await cutOff('before');
    await pass();
    const away = () => Promise.reject(new EventStoreUnavailableError('away'));
    await expect(pass({ ...sweep.vault.log, append: away })).rejects.toThrow('away');
    expect(await hasKey(lost)).toBe(true);
    expect(await pass()).toBe(1);
  });
}

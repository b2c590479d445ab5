import type { RecordedEvent } from '@token-vault/event-store';
import { describe, expect, it } from 'vitest';
import { Transactions, type StagedEvent } from '../src/runner/transactions.ts';

const boundary = (type: string, id: string) => ({ type, data: { transaction_id: id }, metadata: {} }) as unknown as RecordedEvent; // prettier-ignore
const opened = (id: string) => boundary('TransactionOpened', id);
const committed = (id: string) => boundary('TransactionCommitted', id);
const enlisted = (id: string) => ({ type: 'TokenCreated', data: {}, metadata: { transaction_id: id } }) as unknown as RecordedEvent; // prettier-ignore
const rolledBack = (id: string) => boundary('TransactionRolledBack', id);
const staged = {} as StagedEvent;

describe('a transaction', () => {
  it('is looked up unless its opening was in the batches', () => {
    const transactions = new Transactions();
    expect(transactions.unknownOf([enlisted('a'), committed('b')])).toEqual(['a', 'b']);
    expect(transactions.unknownOf([rolledBack('b')])).toEqual(['b']);
    expect(transactions.unknownOf([opened('c'), enlisted('c'), committed('c')])).toEqual([]);
    expect(transactions.unknownOf([enlisted('c'), enlisted('a')])).toEqual(['a']);
  });

  it('that was looked up is looked up again for the next batch; a known one stays known', () => {
    const transactions = new Transactions();
    const unknown = transactions.unknownOf([opened('known'), enlisted('known'), enlisted('other')]);
    transactions.closed.add('other');
    transactions.stage('known', staged, 1);
    transactions.stage('other', staged, 1);
    expect([...transactions.events.keys()]).toEqual(['known']);
    transactions.forget(unknown);
    expect([...transactions.events.keys()]).toEqual(['known']);
    expect(transactions.closed.has('other')).toBe(false);
    expect(transactions.unknownOf([enlisted('other')])).toEqual(['other']);
    expect(transactions.unknownOf([committed('known')])).toEqual([]);
  });

  it.each([
    ['events', (it: Transactions) => Array.from({ length: 2_001 }, () => it.stage('a', staged, 1))],
    ['characters of events', (it: Transactions) => it.stage('a', staged, 17_000_000)],
    [
      'transactions',
      (it: Transactions) => it.unknownOf(Array.from({ length: 10_001 }, (_, n) => opened(`${n}`))),
    ],
  ])('is forgotten when more %s are remembered than memory is for', (_what, fill) => {
    const transactions = new Transactions();
    transactions.unknownOf([opened('a')]);
    transactions.forget([]);
    expect(transactions.unknownOf([enlisted('a')])).toEqual([]);
    fill(transactions);
    transactions.forget([]);
    expect(transactions.events.size).toBe(0);
    expect(transactions.unknownOf([enlisted('a')])).toEqual(['a']);
  });
});

import {
  TransactionCommitted,
  TransactionExpired,
  TransactionOpened,
  TransactionRolledBack,
  TransactionTokenEnlisted,
} from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';
import { transactionDecider, type TransactionCommand } from '../../src/transactions/decider.ts';
import { later, now, specify } from '../aggregates/specification.ts';

const { given } = specify(transactionDecider);
const id = '00000000-0000-4000-8000-0000000000aa';
const identity = { transaction_id: id };
const expiresAt = later(1000).toISOString();
const opened = fact(TransactionOpened, { ...identity, expires_at: expiresAt });
const enlisted = (tokenId: string, more: { rights?: string; token_expires_at?: string } = {}) =>
  fact(TransactionTokenEnlisted, { ...identity, token_id: tokenId, ...more });
const end = (kind: 'commit' | 'rollback', changes: { by?: string; now?: Date } = {}): TransactionCommand => ({
  kind,
  id,
  by: 'app',
  rights: 'mine',
  now,
  ...changes,
});
const definitions = { commit: TransactionCommitted, rollback: TransactionRolledBack };

describe('opening a transaction', () => {
  const open: TransactionCommand = { kind: 'open', id, expiresAt };
  it('is an event', () => given().when(open).then(opened));
  it('is done once, whatever its outcome', () => {
    given(opened).when(open).thenNothing();
    given(opened, fact(TransactionExpired, identity)).when(open).thenNothing();
  });
});

describe.each(['commit', 'rollback'] as const)('the %s of a transaction', (kind) => {
  it('ends one that is open', () =>
    given(opened, enlisted('a')).when(end(kind)).then(fact(definitions[kind], identity)));
  it('finds no absent one', () => given().when(end(kind)).thenRefused({ code: 'not_found' }));
  it('finds none of another application', () =>
    given(opened)
      .when(end(kind, { by: 'other' }))
      .thenRefused({ code: 'not_found' }));
  it.each([TransactionCommitted, TransactionRolledBack, TransactionExpired])(
    'is refused after $type',
    (definition) =>
      given(opened, fact(definition, identity)).when(end(kind)).thenRefused({ code: 'transaction_not_open' }),
  );
  it.each([TransactionCommitted, TransactionRolledBack, TransactionExpired])(
    'is refused after $type, also when an opening is added to the log',
    (definition) =>
      given(opened, fact(definition, identity), opened)
        .when(end(kind))
        .thenRefused({ code: 'transaction_not_open' }),
  );
  it('is possible until the very end of its time, not at it', () => {
    given(opened)
      .when(end(kind, { now: later(999) }))
      .then(fact(definitions[kind], identity));
    given(opened)
      .when(end(kind, { now: later(1000) }))
      .thenRefused({ code: 'transaction_not_open' });
  });
});

describe('the commit of a transaction', () => {
  const changed = { code: 'forbidden' };
  const expired = { code: 'transaction_token_expired' };
  const committed = fact(TransactionCommitted, identity);

  it('needs the rights by which every write was decided', () => {
    given(opened, enlisted('a', { rights: 'mine' }))
      .when(end('commit'))
      .then(committed);
    given(opened, enlisted('a', { rights: 'other' }))
      .when(end('commit'))
      .thenRefused(changed);
    given(opened, enlisted('a', { rights: 'other' }), enlisted('b', { rights: 'mine' }))
      .when(end('commit'))
      .thenRefused(changed);
  });
  it('comes before the expiry of each token that it wrote', () => {
    const brief = enlisted('a', { token_expires_at: later(500).toISOString() });
    const longer = enlisted('b', { token_expires_at: later(900).toISOString() });
    given(opened, brief, longer)
      .when(end('commit', { now: later(499) }))
      .then(committed);
    given(opened, longer, brief)
      .when(end('commit', { now: later(500) }))
      .thenRefused(expired);
  });
  it('is refused also when another caller set the expiry between two attempts of the write', () =>
    given(opened, enlisted('a'), enlisted('a', { token_expires_at: later(500).toISOString() }))
      .when(end('commit', { now: later(600) }))
      .thenRefused(expired));
  it('is not required for a rollback', () =>
    given(opened, enlisted('a', { rights: 'other', token_expires_at: later(1).toISOString() }))
      .when(end('rollback', { now: later(600) }))
      .then(fact(TransactionRolledBack, identity)));
});

describe('the expiry of a transaction', () => {
  const expire = (ms: number): TransactionCommand => ({ kind: 'expire', id, now: later(ms) });
  it('happens at its time', () => given(opened).when(expire(1000)).then(fact(TransactionExpired, identity)));
  it('does not happen before, nor for an unknown transaction, nor after another end', () => {
    given(opened).when(expire(999)).thenNothing();
    given().when(expire(1e9)).thenNothing();
    given(opened, fact(TransactionCommitted, identity)).when(expire(1e9)).thenNothing();
  });
});

describe('a transaction', () => {
  it('has one end, which is the first one', () => {
    const [commit, rollback] = [fact(TransactionCommitted, identity), fact(TransactionRolledBack, identity)];
    expect(given(opened, commit, rollback).state).toMatchObject({ kind: 'committed', position: '2' });
    expect(given(opened, rollback, commit).state).toMatchObject({ kind: 'dropped' });
    expect(given(opened, commit, commit).state).toMatchObject({ kind: 'committed', position: '2' });
  });

  it('of a caller that was deleted is rolled back while it is open', () => {
    const abandon: TransactionCommand = { kind: 'abandon', id };
    given(opened).when(abandon).then(fact(TransactionRolledBack, identity));
    given(opened, fact(TransactionCommitted, identity)).when(abandon).thenNothing();
    given().when(abandon).thenNothing();
  });

  it('knows its tokens, each once, also those enlisted at the last moment', () => {
    const { state } = given(
      opened,
      enlisted('a'),
      enlisted('b'),
      enlisted('a'),
      fact(TransactionCommitted, identity),
      enlisted('c'),
    );
    expect(state).toMatchObject({
      kind: 'committed',
      position: '5',
      writes: ['a', 'b', 'a', 'c'].map((tokenId) => ({ tokenId })),
    });
    expect(state.kind === 'committed' && [...state.tokens]).toEqual([
      ['a', 0],
      ['b', 1],
      ['c', 2],
    ]);
  });
});

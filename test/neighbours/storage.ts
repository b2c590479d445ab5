import type { Client } from '@token-vault/test-support';
import { makeCaller, repeat, type Attack, type Place } from './attack.ts';

interface Transaction {
  readonly id: string;
}

const openTransaction = async (caller: Client) =>
  (await caller.expect<Transaction>(201, 'POST', '/transactions')).body.id;

/** Enlists a hundred tokens at a time. A full transaction is left open, and the next one is opened. */
async function enlist(place: Place) {
  const caller = await makeCaller(place);
  const text = JSON.stringify(Array.from({ length: 100 }, (_, n) => n));
  let opened = openTransaction(caller);
  return async () => {
    const id = await opened;
    const headers = { 'SVC-TRANSACTION-ID': id };
    const { status } = await caller.request('POST', '/tokenize', { text, headers });
    if (status === 409 && (await opened) === id) {
      await caller.request('POST', `/transactions/${id}/rollback`);
      opened = openTransaction(caller);
    }
    return status;
  };
}

/** Changes 500 KB repeatedly. Each change is a version of the token. */
async function patchLarge(place: Place) {
  const caller = await makeCaller(place);
  const body = { type: 'token', data: 'x'.repeat(500_000) };
  const { id } = (await caller.expect<{ id: string }>(201, 'POST', '/tokens', { body })).body;
  const patch = repeat(caller, 'PATCH', `/tokens/${id}`, { data: 'y'.repeat(500_000) });
  for (let version = 0; version < 20; version += 1) await patch(new AbortController().signal);
  return patch;
}

/** The greatest number of terms of a query, none of which an index can answer alone, over 2,000 tokens. */
async function search(place: Place) {
  const caller = await makeCaller(place);
  const text = JSON.stringify(Array.from({ length: 100 }, (_, n) => `value ${n}`));
  for (let made = 0; made < 20; made += 1) await caller.expect(200, 'POST', '/tokenize', { text });
  const terms = Array.from({ length: 90 }, (_, n) => `!container:/${n}/*`);
  return repeat(caller, 'POST', '/tokens/search', { query: terms.join(' AND '), page: 999, size: 1 });
}

export const storageAttacks: readonly Attack[] = [
  {
    name: 'transactions of 10,000 tokens',
    line: 'B4',
    atOnce: 8,
    statuses: [200, 201, 409, 503],
    prepare: enlist,
  },
  {
    name: 'versions of 500 KB',
    line: 'B5',
    atOnce: 8,
    statuses: [200, 409, 503],
    prepare: patchLarge,
  },
  {
    name: '200 searches at once that no index answers',
    line: 'B6',
    atOnce: 200,
    statuses: [200, 503],
    prepare: search,
  },
];

import { waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll } from 'vitest';
import { must, openCast, type Cast } from './cast.ts';
import { card, hiddenOf } from './hidden.ts';
import { permissions, type Rights } from './rights.ts';
import { openTwins, type Twins } from './twins.ts';

/** Longer than the time after which the vault authenticates the caller again and looks again at the tokens of an answer. */
export const bodyTookMs = 150;
export const [hidden] = hiddenOf;
export const masking: Rights = { permissions: [...permissions], rules: [] };

/** A vault of a test file with a card, `live`, that only its author sees in plaintext. Works between `beforeAll` and `afterAll`. */
export function useInFlight() {
  let twins: Twins;
  let cast: Cast;
  beforeAll(async () => {
    twins = await openTwins();
    const [tenantId] = await twins.newPair();
    cast = await openCast(twins, tenantId, { type: 'private', ...masking });
    const data = card(hidden.number, hidden.cvc);
    const body = { id: 'live', type: 'card', data, containers: ['/a/'] };
    await must(twins, cast.author, { operation: 'createToken', body });
  });
  afterAll(() => twins.close());
  return {
    get twins() {
      return twins;
    },
    get cast() {
      return cast;
    },
    /** Locks the read model of tokens, so that queries of it and its projection wait. */
    async lockTokens() {
      const client = await twins.pool.connect();
      await client.query('begin; lock table rm_tokens.token in access exclusive mode');
      const waiting = `select from pg_locks where relation = 'rm_tokens.token'::regclass and not granted`;
      return {
        /** Resolves when a query or the projection waits for the lock. */
        isAwaited: () =>
          waitUntil(async () => (await client.query(waiting)).rowCount, { what: 'a wait for the lock' }),
        async release() {
          await client.query('commit');
          client.release();
        },
      };
    },
  };
}

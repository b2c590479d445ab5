import type { TokenPermission } from '@token-vault/contracts';
import type { Asked } from './entrances.ts';
import { card, hiddenOf } from './hidden.ts';
import { containerOf, publicNumber } from './states.ts';

const own = card('4111111111111111', '999');

/** A request about one token. */
export interface Cell {
  readonly permission: TokenPermission;
  readonly kind: 'read' | 'patch' | 'create' | 'delete';
  readonly ask: (id: string) => Asked;
}

const patch = (body: object): Cell => ({
  permission: 'token:update',
  kind: 'patch',
  ask: (id) => ({ operation: 'updateToken', params: { id }, body }),
});

/**
 * The order matters: later requests change more. Each patch would reveal the data to a caller that may not see it.
 */
export const cells: Readonly<Record<string, Cell>> = {
  get: {
    permission: 'token:read',
    kind: 'read',
    ask: (id) => ({ operation: 'getToken', params: { id } }),
  },
  'create under its id': {
    permission: 'token:create',
    kind: 'create',
    ask: (id) => ({
      operation: 'createToken',
      body: { id, type: 'card', data: own, containers: [containerOf(id)] },
    }),
  },
  'patch of the mask': patch({ mask: '{{ data.cvc }}' }),
  'patch of search indexes': patch({ search_indexes: ['{{ data.number }}'] }),
  'patch of the fingerprint': patch({
    fingerprint_expression: '{{ data.number }}{{ data.expiration_month }}',
  }),
  'patch that deduplicates': patch({ deduplicate_token: true }),
  'move to where it would be shown': patch({ containers: ['/open/shown/'] }),
  delete: {
    permission: 'token:delete',
    kind: 'delete',
    ask: (id) => ({ operation: 'deleteToken', params: { id } }),
  },
};

/** Requests about all tokens at once. */
export const pages: Readonly<Record<string, { permission: TokenPermission; asked: Asked }>> = {
  list: { permission: 'token:read', asked: { operation: 'listTokens', query: { size: '100' } } },
  search: {
    permission: 'token:search',
    asked: { operation: 'searchTokens', body: { query: 'type:card', size: 100 } },
  },
};

const [guessed] = hiddenOf;
const search = (query: string): Asked => ({ operation: 'searchTokens', body: { query } });
const probe = (number: string, more: object = {}): Asked => ({
  operation: 'createToken',
  body: { type: 'card', data: { number }, containers: ['/a/'], deduplicate_token: true, ...more },
});

/** Requests with a value that one of the twins hides, or with a public value. */
export const guesses: Readonly<Record<string, Asked>> = {
  'a search for a number': search(`data:${guessed.number}`),
  'a search for all but a number': search(`NOT data:${guessed.number}`),
  'a search for a cvc or something': search(`data:${guessed.cvc} OR type:card`),
  'a probe by deduplication of what is there': probe(publicNumber),
  'a probe by deduplication of what is hidden': probe(guessed.number),
  'a probe by an expression of its own': probe(guessed.number, {
    fingerprint_expression: '{{ data.number }}',
  }),
  'a probe that tokenizes': {
    operation: 'tokenize',
    body: { one: probe(guessed.number).body, other: probe(publicNumber).body },
  },
};

import type { Json, TokenType } from '@token-vault/contracts';

export interface TypeDefaults {
  readonly container: string;
  readonly mask: Json | undefined;
  readonly fingerprintExpression: string;
  readonly searchIndexes: readonly string[];
}

const lastFour = '{{ data | reveal_last: 4 }}';
const withoutDashes = "{{ data | remove: '-' }}";
const digitsOfAPerson: TypeDefaults = {
  container: '/pii/high/',
  mask: lastFour,
  fingerprintExpression: withoutDashes,
  searchIndexes: ['{{ data }}', withoutDashes, '{{ data | last4 }}'],
};

/** The defaults of each token type (rules.md §3). */
export const typeDefaults: Readonly<Record<TokenType, TypeDefaults>> = {
  token: {
    container: '/general/high/',
    mask: undefined,
    fingerprintExpression: '{{ data | stringify }}',
    searchIndexes: [],
  },
  card: {
    container: '/pci/high/',
    mask: {
      number: '{{ data.number | reveal_last: 4 }}',
      expiration_month: '{{ data.expiration_month }}',
      expiration_year: '{{ data.expiration_year }}',
    },
    fingerprintExpression: '{{ data.number }}',
    searchIndexes: [],
  },
  bank: {
    container: '/bank/high/',
    mask: {
      routing_number: '{{ data.routing_number }}',
      account_number: '{{ data.account_number | reveal_last: 4 }}',
    },
    fingerprintExpression: '{{ data.account_number }}|{{ data.routing_number }}',
    searchIndexes: [],
  },
  card_number: {
    container: '/pci/high/',
    mask: lastFour,
    fingerprintExpression: '{{ data }}',
    searchIndexes: [],
  },
  us_bank_account_number: {
    container: '/bank/high/',
    mask: lastFour,
    fingerprintExpression: '{{ data }}',
    searchIndexes: [],
  },
  us_bank_routing_number: {
    container: '/bank/low/',
    mask: lastFour,
    fingerprintExpression: '{{ data }}',
    searchIndexes: [],
  },
  social_security_number: digitsOfAPerson,
  employer_id_number: digitsOfAPerson,
};

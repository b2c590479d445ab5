// Lists of names. This file imports no library, because the console uses it too.

export const entityTypes = [
  'application',
  'bank',
  'card',
  'log',
  'proxy',
  'reactor',
  'session',
  'tenant',
  'token',
  'transaction',
] as const;
export type EntityType = (typeof entityTypes)[number];

/**
 * The operations that an entry of the log can name (rules.md §11). `export` exists only in this vault: `vault tokens export` exported
 * tokens.
 */
export const logOperations = [
  'authenticate',
  'authorize',
  'commit',
  'create',
  'delete',
  'denied',
  'expire',
  'export',
  'invoke',
  'list',
  'purge',
  'read',
  'regenerate',
  'rollback',
  'search',
  'update',
  'use',
] as const;
export type LogOperation = (typeof logOperations)[number];

export const tokenTypes = [
  'token',
  'card',
  'bank',
  'card_number',
  'us_bank_account_number',
  'us_bank_routing_number',
  'social_security_number',
  'employer_id_number',
] as const;
export type TokenType = (typeof tokenTypes)[number];

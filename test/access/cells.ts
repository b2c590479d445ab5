import type { Principal } from '@token-vault/access';
import type { AccessRule, Permission, TokenPermission, Transform } from '@token-vault/contracts';
import type { Asked } from './entrances.ts';
import type { Rights } from './twins.ts';

export const container = '/a/';
export const minuteMs = 60_000;
export const all: TokenPermission[] = [
  'token:create',
  'token:read',
  'token:update',
  'token:delete',
  'token:search',
];
const rule = (transform: Transform, of: Partial<AccessRule>): AccessRule => ({
  description: undefined,
  priority: 1,
  container: undefined,
  conditions: undefined,
  ...of,
  transform,
  permissions: all,
});
const within = (transform: Transform, path = '/') => rule(transform, { container: path });
const named = (value: string) => ({ attribute: 'id', operator: 'starts_with', value }) as const;

type Caller = Rights & Partial<Pick<Principal, 'applicationType'>>;
export const callers: Readonly<Record<string, Caller>> = {
  public: { applicationType: 'public', permissions: ['token:create', 'token:update'], rules: [] },
  private: { permissions: all, rules: [] },
  masking: { permissions: [], rules: [within('mask')] },
  redacting: { permissions: [], rules: [within('redact')] },
  'revealing elsewhere': { permissions: [], rules: [within('reveal', '/open/')] },
  'revealing elsewhere, private': { permissions: all, rules: [within('reveal', '/open/')] },
  revealing: { permissions: [], rules: [within('reveal')] },
  'a session with conditions': {
    permissions: [],
    rules: [rule('reveal', { conditions: [named('l')] })],
    authorizer: { permissions: [], rules: [within('reveal')] },
  },
  'a session narrowed since': {
    permissions: [],
    rules: [rule('reveal', { conditions: [named('')] })],
    authorizer: { permissions: all, rules: [] },
  },
  management: { applicationType: 'management', permissions: ['application:read'] as Permission[], rules: [] },
};

/** By id. `hasCvc`: not purged yet. */
export const states: Readonly<Record<string, { isThere: boolean; hasCvc: boolean; isLocked?: boolean }>> = {
  live: { isThere: true, hasCvc: true },
  patched: { isThere: true, hasCvc: true },
  deduplicated: { isThere: true, hasCvc: true },
  purged: { isThere: true, hasCvc: false },
  expired: { isThere: false, hasCvc: false },
  deleted: { isThere: false, hasCvc: false },
  enlisted: { isThere: true, hasCvc: true, isLocked: true },
  uncommitted: { isThere: false, hasCvc: false },
  never: { isThere: false, hasCvc: false },
};

export const card = (number: string, cvc: string) => ({
  number,
  cvc,
  expiration_month: 1,
  expiration_year: 2040,
});
type Ask = (id: string) => Asked;
export const asks: Readonly<Record<string, { permission: TokenPermission; ask: Ask }>> = {
  get: { permission: 'token:read', ask: (id) => ({ operation: 'getToken', params: { id } }) },
  patch: {
    permission: 'token:update',
    ask: (id) => ({ operation: 'updateToken', params: { id }, body: { mask: '{{ data.cvc }}' } }),
  },
};
export const pages: Readonly<Record<string, { permission: TokenPermission; asked: Asked }>> = {
  list: { permission: 'token:read', asked: { operation: 'listTokens' } },
  search: { permission: 'token:search', asked: { operation: 'searchTokens', body: { query: 'type:card' } } },
};

import { tableOf } from '@token-vault/contracts';
import type { Table } from '../projection.ts';

export const applicationTables: readonly Table[] = [
  {
    ...tableOf('applications', 'application'),
    primaryKey: ['id'],
    indexes: [
      { on: '(key_hash)', isUnique: true },
      { on: '(tenant_id, seq desc, id)' },
      { on: '(expires_at) where expires_at is not null' },
    ],
  },
  // A row for every key that is or was not the main one. It says where to look for a key; the signed `keys` of the application say
  // whether the key is valid. `reason` is why it is not, when it is not.
  {
    ...tableOf('applications', 'application_key'),
    primaryKey: ['key_hash'],
    indexes: [{ on: '(tenant_id)' }],
  },
  {
    ...tableOf('applications', 'retired_key'),
    primaryKey: ['key_hash'],
    indexes: [{ on: '(tenant_id)' }],
  },
  // A row for every session, also ended ones: the log names the session when its key is used before the
  // authorisation or after the end.
  {
    ...tableOf('applications', 'session_key'),
    primaryKey: ['session_id'],
    indexes: [{ on: '(key_hash)', isUnique: true }, { on: '(tenant_id)' }],
  },
  {
    ...tableOf('applications', 'console_session'),
    primaryKey: ['id'],
    indexes: [{ on: '(secret_hash)', isUnique: true }, { on: '(tenant_id)' }, { on: '(ends_at)' }],
  },
  {
    ...tableOf('applications', 'session'),
    primaryKey: ['id'],
    indexes: [
      { on: '(key_hash)', isUnique: true },
      { on: '(nonce_hash)', isUnique: true },
      { on: '(application_id)' },
      { on: '(tenant_id)' },
      { on: '(expires_at)' },
    ],
  },
];

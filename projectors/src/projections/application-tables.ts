import type { Table } from '../projection.ts';

export const applicationTables: readonly Table[] = [
  {
    name: 'application',
    columns: {
      tenant_id: 'uuid not null',
      id: 'uuid not null',
      name: 'text not null',
      type: 'text not null',
      permissions: 'jsonb not null',
      rules: 'jsonb not null',
      key_hash: 'text collate "C"',
      key_id: 'uuid',
      key_created_at: 'timestamptz not null',
      keys: 'jsonb not null',
      created_by: 'text not null',
      created_at: 'timestamptz not null',
      modified_by: 'text',
      modified_at: 'timestamptz',
      expires_at: 'timestamptz',
      expires_at_text: 'text',
      signature: 'text',
      seq: 'bigint not null',
    },
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
    name: 'application_key',
    columns: {
      key_hash: 'text collate "C" not null',
      tenant_id: 'uuid not null',
      application_id: 'uuid not null',
      reason: 'text not null',
    },
    primaryKey: ['key_hash'],
    indexes: [{ on: '(tenant_id)' }],
  },
  {
    name: 'retired_key',
    columns: {
      key_hash: 'text collate "C" not null',
      tenant_id: 'uuid not null',
      application_id: 'uuid not null',
      reason: 'text not null',
      retired_at: 'timestamptz not null',
    },
    primaryKey: ['key_hash'],
    indexes: [{ on: '(tenant_id)' }],
  },
  // A row for every session, also ended ones: the log names the session when its key is used before the
  // authorisation or after the end.
  {
    name: 'session_key',
    columns: {
      session_id: 'uuid not null',
      key_hash: 'text collate "C" not null',
      tenant_id: 'uuid not null',
      application_id: 'uuid not null',
      reason: 'text not null',
    },
    primaryKey: ['session_id'],
    indexes: [{ on: '(key_hash)', isUnique: true }, { on: '(tenant_id)' }],
  },
  {
    name: 'session',
    columns: {
      id: 'uuid not null',
      tenant_id: 'uuid not null',
      application_id: 'uuid not null',
      key_hash: 'text collate "C" not null',
      nonce_hash: 'text collate "C" not null',
      expires_at: 'timestamptz not null',
      expires_at_text: 'text not null',
      is_authorized: 'boolean not null',
      authorized_by: 'uuid',
      opener_key_hash: 'text collate "C"',
      authorizer_key_hash: 'text collate "C"',
      permissions: 'jsonb not null',
      rules: 'jsonb not null',
      signature: 'text',
      seq: 'bigint not null',
    },
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

import { authorOf } from '@token-vault/contracts';
import type { Projection, SqlOp } from '../projection.ts';
import { accessChangesOf } from './access-changes.ts';

/** Keeps the present key of an application as one that was valid, so that its further use is logged for its tenant. */
const retireKey = (applicationId: string, reason: string, retiredAt: string): SqlOp => ({
  kind: 'copy',
  from: 'application',
  where: { id: applicationId },
  into: 'retired_key',
  columns: { key_hash: 'key_hash', tenant_id: 'tenant_id', application_id: 'id' },
  add: { reason, retired_at: retiredAt },
});

const end = (applicationId: string, reason: string, endedAt: string): SqlOp[] => [
  retireKey(applicationId, reason, endedAt),
  { kind: 'delete', table: 'application', key: { id: applicationId } },
  { kind: 'sweep', table: 'session', where: { application_id: applicationId } },
];

export const applications: Projection = {
  name: 'applications',
  version: 4,
  tables: [
    {
      name: 'application',
      columns: {
        tenant_id: 'uuid not null',
        id: 'uuid not null',
        name: 'text not null',
        type: 'text not null',
        permissions: 'jsonb not null',
        rules: 'jsonb not null',
        key_hash: 'text collate "C" not null',
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
    // Of every session there was: who uses its key before it is authorised, or after its end, is named in the log.
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
  ],
  ddl: accessChangesOf(['application', 'session']),
  on: {
    ApplicationCreated: ({ data, metadata, position }) => [
      {
        kind: 'insert',
        table: 'application',
        row: {
          tenant_id: metadata.tenant_id,
          id: data.application_id,
          name: data.name,
          type: data.type,
          permissions: data.permissions,
          rules: data.rules as never,
          key_hash: data.key_hash,
          created_by: authorOf(metadata),
          created_at: metadata.occurred_at,
          expires_at: data.expires_at,
          expires_at_text: data.expires_at,
          signature: data.signature,
          seq: position,
        },
      },
    ],
    ApplicationUpdated: ({ data, metadata }) => [
      {
        kind: 'update',
        table: 'application',
        key: { id: data.application_id },
        set: {
          name: data.name,
          permissions: data.permissions,
          rules: data.rules as never,
          signature: data.signature ?? null,
          modified_by: authorOf(metadata),
          modified_at: metadata.occurred_at,
        },
      },
    ],
    ApplicationKeyRegenerated: ({ data, metadata }) => [
      retireKey(data.application_id, 'regenerated', metadata.occurred_at),
      {
        kind: 'update',
        table: 'application',
        key: { id: data.application_id },
        set: {
          key_hash: data.key_hash,
          signature: data.signature ?? null,
          modified_by: authorOf(metadata),
          modified_at: metadata.occurred_at,
        },
      },
    ],
    ApplicationSigned: ({ data }) => [
      {
        kind: 'update',
        table: 'application',
        key: { id: data.application_id },
        set: { signature: data.signature },
      },
    ],
    ApplicationDeleted: ({ data, metadata }) => end(data.application_id, 'deleted', metadata.occurred_at),
    ApplicationExpired: ({ data, metadata }) => end(data.application_id, 'expired', metadata.occurred_at),
    SessionOpened: ({ data, metadata, position }) => [
      {
        kind: 'insert',
        table: 'session',
        row: {
          id: data.session_id,
          tenant_id: metadata.tenant_id,
          application_id: data.application_id,
          key_hash: data.key_hash,
          nonce_hash: data.nonce_hash,
          expires_at: data.expires_at,
          expires_at_text: data.expires_at,
          is_authorized: false,
          permissions: [],
          rules: [],
          seq: position,
        },
      },
      {
        kind: 'insert',
        table: 'session_key',
        row: {
          session_id: data.session_id,
          key_hash: data.key_hash,
          tenant_id: metadata.tenant_id,
          application_id: data.application_id,
          reason: 'not_authorized',
        },
      },
    ],
    SessionAuthorized: ({ data }) => [
      {
        kind: 'update',
        table: 'session_key',
        key: { session_id: data.session_id },
        set: { reason: 'ended' },
      },
      {
        kind: 'update',
        table: 'session',
        key: { id: data.session_id },
        set: {
          is_authorized: true,
          authorized_by: data.authorized_by,
          permissions: data.permissions,
          rules: data.rules as never,
          expires_at: data.expires_at,
          expires_at_text: data.expires_at,
          signature: data.signature ?? null,
        },
      },
    ],
    SessionExpired: ({ data }) => [{ kind: 'delete', table: 'session', key: { id: data.session_id } }],
    TenantDeleted: ({ data: { tenant_id } }) =>
      ['application', 'retired_key', 'session_key', 'session'].map((table) => ({
        kind: 'sweep',
        table,
        where: { tenant_id },
      })),
  },
};

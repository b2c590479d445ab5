import { authorOf, type EventMetadata } from '@token-vault/contracts';
import type { Projection, Row, SqlOp } from '../projection.ts';
import { accessChangesOf } from './access-changes.ts';
import { applicationTables } from './application-tables.ts';

/** Keeps the present main key of an application as a retired key, so that a later use of it is logged for its tenant. */
const retireKey = (applicationId: string, reason: string, retiredAt: string): SqlOp => ({
  kind: 'copy',
  from: 'application',
  where: { id: applicationId },
  unlessNull: 'key_hash',
  into: 'retired_key',
  columns: { key_hash: 'key_hash', tenant_id: 'tenant_id', application_id: 'id' },
  add: { reason, retired_at: retiredAt },
});

const addKey = (applicationId: string, keyHash: string, tenantId: string): SqlOp => ({
  kind: 'insert',
  table: 'application_key',
  row: { key_hash: keyHash, tenant_id: tenantId, application_id: applicationId, reason: 'expired' },
});

const changeKeys = (
  data: { readonly application_id: string; readonly signature?: string | undefined },
  metadata: EventMetadata,
  set: Row,
): SqlOp => ({
  kind: 'update',
  table: 'application',
  key: { id: data.application_id },
  set: {
    ...set,
    signature: data.signature ?? null,
    modified_by: authorOf(metadata),
    modified_at: metadata.occurred_at,
  },
});

const end = (applicationId: string, reason: string, endedAt: string): SqlOp[] => [
  retireKey(applicationId, reason, endedAt),
  { kind: 'delete', table: 'application', key: { id: applicationId } },
  { kind: 'sweep', table: 'session', where: { application_id: applicationId } },
];

export const applications: Projection<'applications'> = {
  name: 'applications',
  version: 7,
  tables: applicationTables,
  ddl: accessChangesOf(['application', 'session', 'console_session']),
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
          rules: data.rules,
          key_hash: data.key_hash,
          key_created_at: metadata.occurred_at,
          keys: [],
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
          rules: data.rules,
          signature: data.signature ?? null,
          modified_by: authorOf(metadata),
          modified_at: metadata.occurred_at,
        },
      },
    ],
    ApplicationKeyRegenerated: ({ data, metadata }) => [
      data.kept_key_hash === undefined
        ? retireKey(data.application_id, 'regenerated', metadata.occurred_at)
        : addKey(data.application_id, data.kept_key_hash, metadata.tenant_id),
      changeKeys(data, metadata, {
        key_hash: data.key_hash,
        key_id: data.key_id ?? null,
        key_created_at: metadata.occurred_at,
        ...(data.keys && { keys: data.keys }),
      }),
    ],
    ApplicationKeyAdded: ({ data, metadata }) => [
      addKey(data.application_id, data.key_hash, metadata.tenant_id),
      changeKeys(data, metadata, { keys: data.keys }),
    ],
    ApplicationKeyDeleted: ({ data, metadata }) => [
      data.was_main
        ? retireKey(data.application_id, 'deleted', metadata.occurred_at)
        : {
            kind: 'update',
            table: 'application_key',
            key: { key_hash: data.key_hash },
            set: { reason: 'deleted' },
          },
      changeKeys(data, metadata, {
        keys: data.keys,
        ...(data.was_main && { key_hash: null, key_id: null }),
      }),
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
          opener_key_hash: data.opener_key_hash,
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
          authorizer_key_hash: data.authorizer_key_hash,
          permissions: data.permissions,
          rules: data.rules,
          expires_at: data.expires_at,
          expires_at_text: data.expires_at,
          signature: data.signature ?? null,
        },
      },
    ],
    SessionExpired: ({ data }) => [{ kind: 'delete', table: 'session', key: { id: data.session_id } }],
    ConsoleSessionOpened: ({ data, metadata }) => [
      {
        kind: 'insert',
        table: 'console_session',
        row: {
          id: data.session_id,
          tenant_id: metadata.tenant_id,
          secret_hash: data.secret_hash,
          members: data.members,
          ends_at: data.ends_at,
          ends_at_text: data.ends_at,
          expires_at_text: data.expires_at,
          signature: data.signature,
        },
      },
      {
        kind: 'insert',
        table: 'session_key',
        row: {
          session_id: data.session_id,
          key_hash: data.secret_hash,
          tenant_id: metadata.tenant_id,
          application_id: data.members[0]?.application_id ?? metadata.actor.id,
          reason: 'ended',
        },
      },
    ],
    ConsoleSessionUsed: ({ data }) => [
      {
        kind: 'update',
        table: 'console_session',
        key: { id: data.session_id },
        set: { ends_at: data.ends_at, ends_at_text: data.ends_at, signature: data.signature },
      },
    ],
    ConsoleSessionEnded: ({ data }) => [
      {
        kind: 'update',
        table: 'session_key',
        key: { session_id: data.session_id },
        set: { reason: data.reason },
      },
      { kind: 'delete', table: 'console_session', key: { id: data.session_id } },
    ],
    ConsoleSessionExpired: ({ data }) => [
      { kind: 'delete', table: 'console_session', key: { id: data.session_id } },
    ],
    TenantDeleted: ({ data: { tenant_id } }) =>
      ['application', 'application_key', 'retired_key', 'session_key', 'session', 'console_session'].map(
        (table) => ({
          kind: 'sweep',
          table,
          where: { tenant_id },
        }),
      ),
  },
};

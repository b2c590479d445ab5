import { createHmac } from 'node:crypto';
import type { Statement } from '@token-vault/contracts';
import { createTestPool } from '@token-vault/test-support';

/** The columns that the authenticator reads, with the triggers the projections give them. */
export const schema = `
create schema rm_applications; create schema rm_tenants;
create table rm_applications.application (id uuid primary key, tenant_id uuid, type text, key_hash text unique,
  permissions jsonb, rules jsonb, expires_at_text text, signature text, key_id uuid, keys jsonb not null default '[]', name text not null default 'Backend');
create table rm_applications.application_key (key_hash text primary key, tenant_id uuid, application_id uuid, reason text);
create table rm_applications.session (id uuid primary key, tenant_id uuid, application_id uuid, key_hash text unique,
  permissions jsonb, rules jsonb, expires_at_text text, is_authorized boolean, authorized_by uuid, signature text,
  opener_key_hash text, authorizer_key_hash text);
create table rm_applications.retired_key (key_hash text primary key, tenant_id uuid, application_id uuid, reason text);
create table rm_applications.console_session (id uuid primary key, tenant_id uuid, secret_hash text unique, members jsonb,
  ends_at_text text, expires_at_text text, signature text);
create table rm_applications.session_key (session_id uuid primary key, key_hash text unique, tenant_id uuid,
  application_id uuid, reason text);
create table rm_tenants.tenant (id uuid primary key, plan text, settings jsonb, is_deleted boolean,
  accepts_unsigned boolean, signature text);
`;

export const tenantId = '11111111-1111-4111-8111-111111111111';

/** The signature of a record, by a key in place of that of the tenant. */
export const macOf = (statement: Statement, revision: number, tenant = tenantId): string =>
  `m1.${revision}.${createHmac('sha256', tenant)
    .update(JSON.stringify([statement, revision]))
    .digest('base64url')
    .slice(0, 22)}`;
export async function execute(url: string, sql: string): Promise<void> {
  const own = createTestPool(url);
  await own.query(sql);
  await own.end();
}

import { consoleSessionStatement, sessionStatement, type Permission } from '@token-vault/contracts';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import type pg from 'pg';
import { applicationId, key, tenantId } from './authenticator-setup.ts';
import { macOf } from './tables.ts';

const permissions: Permission[] = ['token:create'];

export const sessionKey = generateApiKey('ses');
/** A session that the application opened and authorised. */
export const session = {
  id: '33333333-3333-4333-8333-333333333333',
  applicationId,
  authorizedBy: applicationId,
  keyHash: hashApiKey(sessionKey),
  permissions,
  rules: [],
  expiresAt: '2030-01-01T00:03:00Z',
  openerKeyHash: hashApiKey(key),
  authorizerKeyHash: hashApiKey(key),
};

/** The row as it is authorised, except that it does not say so. */
export async function insertSession(pool: pg.Pool): Promise<void> {
  await pool.query(
    `insert into rm_applications.session values ($1, $2, $3, $4, '["token:create"]', '[]', $7, false, $3, $5, $6, $6)`,
    [
      session.id,
      tenantId,
      applicationId,
      session.keyHash,
      macOf(sessionStatement(session), 1),
      session.openerKeyHash,
      session.expiresAt,
    ],
  );
}

export const consoleSecret = generateApiKey('ses');

/** A browser that signed in to the console with the key of the application. */
export async function insertConsoleSession(pool: pg.Pool): Promise<void> {
  const stated = {
    id: '44444444-4444-4444-8444-444444444444',
    secretHash: hashApiKey(consoleSecret),
    members: [{ application_id: applicationId, application_type: 'private', key_hash: hashApiKey(key) }],
    endsAt: '2030-01-01T00:30:00Z',
    expiresAt: '2030-01-01T12:00:00Z',
  };
  await pool.query('insert into rm_applications.console_session values ($1, $2, $3, $4, $5, $6, $7)', [
    stated.id,
    tenantId,
    stated.secretHash,
    JSON.stringify(stated.members),
    stated.endsAt,
    stated.expiresAt,
    macOf(consoleSessionStatement(stated), 0),
  ]);
}

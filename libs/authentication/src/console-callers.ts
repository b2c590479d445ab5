import { isPermissionAllowed, type Permission } from '@token-vault/contracts';
import type { Caller } from './caller.ts';
import type { ConsoleMember, ConsoleSessionRow } from './rows.ts';

/**
 * The application of the session for a request: the one whose type may hold the permission that the operation needs. A session has at most
 * one of each type.
 */
export function memberFor(
  { members }: ConsoleSessionRow,
  permission: Permission | null,
): ConsoleMember | undefined {
  const holder =
    permission === null
      ? undefined
      : members.find((member) => isPermissionAllowed(permission, member.application_type));
  return holder ?? members[0];
}

const consoleEndOf = ({ ends_at_text: endsAt, expires_at_text: expiresAt }: ConsoleSessionRow): number =>
  Math.min(Date.parse(endsAt), Date.parse(expiresAt));

/** A signed-in browser acts with the present rights of the application, but is shown no plaintext (docs/reference/console.md). */
export function callerOfConsole(session: ConsoleSessionRow, { principal, expiresAt, rows }: Caller): Caller {
  const endsAt = consoleEndOf(session);
  return {
    principal: {
      ...principal,
      actor: { kind: 'session', id: session.id },
      authorizedBy: principal.applicationId,
      keyHash: session.secret_hash,
      shownAtMost: 'mask',
    },
    expiresAt: Math.min(endsAt, expiresAt),
    rows: [...rows, session],
    consoleSession: { tenantId: session.tenant_id, id: session.id, endsAt },
  };
}

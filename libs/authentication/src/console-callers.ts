import { isPermissionAllowed, streams, type Permission } from '@token-vault/contracts';
import type { Caller } from './caller.ts';
import type { ConsoleMember, ConsoleSessionRow } from './rows.ts';

/**
 * The applications of the session that may answer a request: the one whose type may hold the permission that the operation needs, or all of
 * them where it needs none. Of all, the one whose key ends last answers, so that a person can sign out while one key has ended. A session has
 * at most one of each type.
 */
export function membersFor(
  { members }: ConsoleSessionRow,
  permission: Permission | null,
): readonly ConsoleMember[] {
  if (permission === null) return members;
  const holder = members.find((member) => isPermissionAllowed(permission, member.application_type));
  return [holder ?? members[0]].filter((member) => member !== undefined);
}

const consoleEndOf = ({ ends_at_text: endsAt, expires_at_text: expiresAt }: ConsoleSessionRow): number =>
  Math.min(Date.parse(endsAt), Date.parse(expiresAt));

/** A signed-in browser acts with the present rights of the application, but is shown no plaintext (docs/reference/console.md). */
export function callerOfConsole(session: ConsoleSessionRow, caller: Caller): Caller {
  const { principal, expiresAt } = caller;
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
    streams: [...caller.streams, streams.consoleSession(session.tenant_id, session.id)],
    consoleSession: { tenantId: session.tenant_id, id: session.id, endsAt },
  };
}

import type { Principal } from '@token-vault/access';
import {
  AccessDenied,
  AuthenticationFailed,
  ForbiddenError,
  UnauthenticatedError,
  type VaultEvent,
} from '@token-vault/contracts';
import { startPosition } from '@token-vault/event-store';
import { expect, it } from 'vitest';
import { commandLineCaller, type AuditTrail, type Identity } from '../src/index.ts';

const principalWith = (...permissions: Principal['permissions'][number][]): Principal => ({
  tenant: { id: '7d9f0c5e-4a53-4b0e-9a55-0a3c1d2e4f60', plan: 'standard', settings: {} },
  actor: { kind: 'application', id: 'a' },
  applicationId: 'a',
  applicationType: 'private',
  permissions,
  rules: [],
});

function callerFound(identity: Identity, check?: (principal: Principal) => void) {
  const recorded: VaultEvent[] = [];
  const audit: AuditTrail = {
    async record(context, name, data) {
      recorded.push(context.event(name, data));
      return startPosition;
    },
    async recordAll(_context, events) {
      recorded.push(...events);
      return startPosition;
    },
  };
  const request = { traceId: 'trace', identify: async () => identity, reason: ' a reason ' };
  const clock = { now: () => new Date(0) };
  return { recorded, caller: commandLineCaller('export', request, { audit, clock }, check) };
}

it('the caller of an export has the reason that the operator gives', async () => {
  const { caller, recorded } = callerFound({ kind: 'authenticated', principal: principalWith('token:read') });
  const principal = await caller.principalNow();
  const { metadata } = caller.contextOf({ principal, atMs: 0 });
  expect([metadata, recorded]).toMatchObject([{ request: 'export', reason: 'a reason' }, []]);
});

const refuse = () => {
  throw new ForbiddenError('no rule reveals tokens');
};

it.each([
  ['lacks the permission', principalWith('token:create'), undefined],
  ['does not pass the further check', principalWith('token:read'), refuse],
])('an export whose caller %s is refused, and the log has that once', async (_why, principal, check) => {
  const { caller, recorded } = callerFound({ kind: 'authenticated', principal }, check);
  await expect(caller.principalNow()).rejects.toBeInstanceOf(ForbiddenError);
  expect(recorded).toMatchObject([
    {
      type: AccessDenied.type,
      data: { entity_type: 'token', permission: 'token:read', operation: 'export' },
      metadata: { request: 'export', reason: 'a reason', actor: principal.actor },
    },
  ]);
});

it('an export with a retired key is refused and recorded', async () => {
  const key = { tenantId: principalWith().tenant.id, applicationId: 'a', reason: 'deleted' };
  const { caller, recorded } = callerFound({ kind: 'retired', key });
  await expect(caller.principalNow()).rejects.toBeInstanceOf(UnauthenticatedError);
  expect(recorded).toMatchObject([
    { type: AuthenticationFailed.type, data: { reason: 'deleted' }, metadata: { request: 'export' } },
  ]);
});

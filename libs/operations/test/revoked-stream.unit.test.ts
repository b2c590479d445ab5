import { operations, streams, type Operation } from '@token-vault/contracts';
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { revokedStream } from '../src/revoked-stream.ts';

const tenantId = randomUUID();
const sessionId = randomUUID();
const id = randomUUID();
const caller = {
  tenant: { id: tenantId, plan: 'standard', settings: {} },
  actor: { kind: 'session', id: sessionId },
} as const;
/** The parameters of the path, unless given. */
const streamOf = (operation: Operation, given?: object) => {
  const params = operation.path.includes('{key_id}') ? { id, key_id: id } : { id };
  return revokedStream(operation, caller, given ?? params);
};

describe('the stream of a revocation', () => {
  it('is that of the entity whose rights it withdraws', () => {
    const revocations = Object.entries<Operation>(operations).filter(([, { isRevocation }]) => isRevocation);
    const found = revocations.map(([name, operation]) => [name, streamOf(operation)]);
    const [application, tenant] = [streams.application(tenantId, id), streams.tenant(tenantId)];
    expect(Object.fromEntries(found)).toEqual({
      updateApplication: application,
      regenerateApplicationKey: application,
      deleteApplicationKey: application,
      deleteApplication: application,
      deleteProxyKey: streams.proxy(tenantId, id),
      updateTenant: tenant,
      deleteTenant: tenant,
      endConsoleSession: streams.consoleSession(tenantId, sessionId),
    });
  });

  it('is the same for another spelling of the id', () => {
    const stream = streamOf(operations.deleteApplication, { id: id.toUpperCase() });
    expect(stream).toBe(streams.application(tenantId, id));
  });

  it('does not exist for other operations', () => {
    expect(streamOf(operations.createApplicationKey)).toBeUndefined();
    expect(streamOf(operations.deleteToken)).toBeUndefined();
  });
});

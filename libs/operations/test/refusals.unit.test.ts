import { AccessDenied, ForbiddenError, type Permission, secret } from '@token-vault/contracts';
import { startPosition } from '@token-vault/event-store';
import { expect, it } from 'vitest';
import { createExecutor, type AuditTrail, type OperationRequest } from '../src/index.ts';

const common = {
  progress: {
    waitFor: async () => true,
    reach: async () => true,
    recovered: async () => true,
    losses: 0,
  },
  watch: { requireMoving: async () => undefined },
  revocations: { confirm: async () => 'as usual' as const },
  storage: { requireSpace: () => undefined },
  clock: { now: () => new Date(0) },
};

const requestBy = (...permissions: Permission[]): OperationRequest => ({
  traceId: 'trace',
  identify: async () => ({
    kind: 'authenticated',
    keyHash: 'hash',
    principal: {
      tenant: { id: '7d9f0c5e-4a53-4b0e-9a55-0a3c1d2e4f60', plan: 'standard', settings: {} },
      actor: { kind: 'application', id: 'a' },
      applicationId: 'a',
      applicationType: 'private',
      permissions,
      rules: [],
    },
  }),
  params: {},
  query: {},
  readBody: async () => secret('data'),
});

it.each([0, 1])(
  'a refusal of a request within another one is in the log once, also when its first record failed: %i failed',
  async (failing) => {
    let left = failing;
    const recorded: string[] = [];
    const audit: AuditTrail = {
      record: async () => startPosition,
      async recordAll(_context, events) {
        left -= 1;
        if (left >= 0) throw new Error('down');
        recorded.push(...events.map(({ type }) => type));
        return startPosition;
      },
    };
    const inner = createExecutor({ ...common, audit, handlers: {} });
    // As code of a proxy makes the tokens of its output.
    const tokenize = async () => (await inner.execute('tokenize', requestBy())).answer;
    const outer = createExecutor({ ...common, audit, handlers: { tokenize } });
    const executed = outer.execute('tokenize', requestBy('token:create'));
    await expect(executed).rejects.toBeInstanceOf(ForbiddenError);
    expect(recorded).toEqual([AccessDenied.type]);
  },
);

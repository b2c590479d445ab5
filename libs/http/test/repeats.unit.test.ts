import { afterEach, describe, expect, it } from 'vitest';
import { ForbiddenError, NotFoundError } from '@token-vault/contracts';
import { EventStoreUnavailableError } from '@token-vault/event-store';
import type { AppDependencies } from '../src/index.ts';
import type { IdempotentAnswers } from '@token-vault/operations';
import { goodKey, principalWith, startTinyApp, type TinyApp, type TinyOptions } from './tiny-app.ts';

const canary = '4111111111111111';
const applicationId = '33333333-3333-4333-8333-333333333333';
const made = { id: applicationId, key: `key_pvt_${canary}` };

let app: TinyApp;
afterEach(() => app.stop());

/** Every request is a repeat of one that was answered with `made`. */
const repeats: IdempotentAnswers = {
  run: (_request, _handle, repeating) => repeating.show({ status: 201, body: made }, []),
};

async function repeat(options: TinyOptions = {}, dependencies: Partial<AppDependencies> = {}) {
  const principal = principalWith({ permissions: ['application:create'] });
  app = await startTinyApp({
    handlers: { createApplication: () => Promise.reject(new ForbiddenError('not run')) },
    authentications: { [goodKey]: { kind: 'authenticated', principal, keyHash: 'good' } },
    ...options,
    dependencies: { idempotency: repeats, ...dependencies },
  });
  const body = { name: 'made', type: 'private', permissions: ['token:read'] };
  const headers = { 'Content-Type': 'application/json', 'SVC-IDEMPOTENCY-KEY': 'again' };
  return app.send('/applications', { method: 'POST', headers, body });
}

describe('the repeat of a request', () => {
  it('is answered when its reading is recorded', async () => {
    expect(await repeat()).toMatchObject({ status: 201, body: made });
    expect(await app.events()).toMatchObject([
      {
        type: 'EntitiesRead',
        data: { entity_type: 'application', operation: 'read', entity_ids: [applicationId] },
        metadata: { request: 'createApplication' },
      },
    ]);
  });

  it('is 503 and shows nothing when its reading cannot be recorded', async () => {
    const append = () => Promise.reject(new EventStoreUnavailableError('down'));
    const reply = await repeat({ append });
    expect(reply.status).toBe(503);
    expect(reply.text).not.toContain(canary);
  });

  it('does not show a deleted entity', async () => {
    const reply = await repeat({}, { findEntity: async () => undefined });
    expect(reply).toMatchObject({ status: 404 });
    expect(reply.text).not.toContain(canary);
  });

  it('shows no token when one of them does not exist, or cannot be recorded', async () => {
    const token = { id: 'tok_1', createdAt: 'then', at: ['card'], by: 'create' } as const;
    const idempotency: IdempotentAnswers = {
      run: (_request, _handle, repeating) => repeating.show({ body: { card: null, raw: canary } }, [token]),
    };
    for (const [error, status] of [
      [new NotFoundError('A token'), 404],
      [new EventStoreUnavailableError('down'), 503],
    ] as const) {
      const show = () => Promise.reject(error);
      const reply = await repeat(
        {},
        {
          idempotency,
          tokenReplay: {
            show,
            areAsShown: async () => true,
            facts: async () => [],
            consistently: (decide) => decide(() => undefined),
          },
        },
      );
      expect(reply.status).toBe(status);
      expect(reply.text).not.toContain(canary);
      await app.stop();
    }
    await repeat();
  });
});

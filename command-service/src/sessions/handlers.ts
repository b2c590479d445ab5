import {
  ForbiddenError,
  NotFoundError,
  streams,
  type ApplicationType,
  type BodyOf,
  type Operations,
} from '@token-vault/contracts';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import type { Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import { attemptsOf } from '../aggregates/attempts.ts';
import { execute, load, type Executed } from '../aggregates/decider.ts';
import type { ApplicationDependencies } from '../applications/handlers.ts';
import { withOffset } from '../applications/moment.ts';
import { nonceLifetimeMs, sessionDecider, type SessionCommand } from './decider.ts';
import { generateNonce, sessionIdOf } from './nonce.ts';
import { sessionSigner, type SessionState } from './state.ts';

/** `POST /sessions/authorize`. */
export type SessionGrant = BodyOf<Operations['authorizeSession']>;

export interface OpenedSession {
  readonly session: { readonly session_key: string; readonly nonce: string; readonly expires_at: string };
  readonly position: Position | undefined;
}

/**
 * A session is no application: operations that need an application refuse the session of one. Gives the hash of the key by which the
 * application calls, because the session ends with that key.
 */
function requireApplicationKey({ principal }: RequestContext, type: ApplicationType, what: string): string {
  const { actor, applicationType, keyHash } = principal;
  if (actor.kind !== 'application' || applicationType !== type || keyHash === undefined) {
    throw new ForbiddenError(`Only a ${type} application can ${what} a session.`);
  }
  return keyHash;
}

/**
 * A create that is repeated after its answer was lost finds its first session, whose key is lost. So the repeat
 * opens another session.
 */
async function drawFreeId(store: ApplicationDependencies['store'], context: RequestContext): Promise<string> {
  for (;;) {
    const id = context.newEntityId();
    const stream = streams.session(context.principal.tenant.id, id);
    if ((await load(store, stream, sessionDecider)).state.kind === 'absent') return id;
  }
}

/** Sessions: opened with a public key, authorized with a private one (rules.md §7). */
export function createSessionHandlers({ store, keyRing }: ApplicationDependencies) {
  async function run(context: RequestContext, id: string, command: SessionCommand) {
    const tenantId = context.principal.tenant.id;
    const stream = streams.session(tenantId, id);
    const event = context.event.bind(context);
    const signing = { signer: sessionSigner, hashes: () => keyRing.hashes(tenantId) };
    const attempts = attemptsOf(context);
    return execute({ store, stream, decider: sessionDecider, command, event, attempts, signing });
  }

  return {
    /** @throws ForbiddenError */
    async open(context: RequestContext): Promise<OpenedSession> {
      const openerKeyHash = requireApplicationKey(context, 'public', 'open');
      const id = await drawFreeId(store, context);
      const key = generateApiKey('ses');
      const nonce = generateNonce(id);
      const expiresAt = new Date(context.now.getTime() + nonceLifetimeMs).toISOString();
      const { position } = await run(context, id, {
        kind: 'open',
        id,
        applicationId: context.principal.applicationId,
        keyHash: hashApiKey(key),
        nonceHash: hashApiKey(nonce),
        openerKeyHash,
        expiresAt,
      });
      return { session: { session_key: key, nonce, expires_at: expiresAt }, position };
    },

    /** @throws ForbiddenError, NotFoundError, ConflictError, ValidationError */
    async authorize(grant: SessionGrant, context: RequestContext): Promise<Executed<SessionState>> {
      const authorizerKeyHash = requireApplicationKey(context, 'private', 'authorize');
      const id = sessionIdOf(grant.nonce);
      if (id === undefined) throw new NotFoundError('The nonce');
      return run(context, id, {
        kind: 'authorize',
        nonceHash: hashApiKey(grant.nonce),
        authorizer: context.principal,
        authorizerKeyHash,
        permissions: grant.permissions ?? [],
        rules: grant.rules ?? [],
        expiresAt: grant.expires_at === undefined ? undefined : withOffset(grant.expires_at),
        now: context.now,
      });
    },
  };
}
export type SessionHandlers = ReturnType<typeof createSessionHandlers>;

import {
  EntitiesRead,
  ForbiddenError,
  newId,
  NotFoundError,
  streams,
  type ApplicationType,
  type ConsoleSession,
} from '@token-vault/contracts';
import { hashApiKey, type KeyRing } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import {
  createRequestContext,
  type AuditTrail,
  type Clock,
  type RequestContext,
} from '@token-vault/operations';
import { execute, load } from '../aggregates/decider.ts';
import { requireSigned } from '../aggregates/signing.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { generateNonce } from '../sessions/nonce.ts';
import { consoleSessionDecider, type ConsoleSessionCommand } from './decider.ts';
import { activeMember, describeSession, type DescribeDependencies } from './describe.ts';
import {
  consoleSessionSigner,
  isOver,
  isSecretOf,
  type ConsoleMember,
  type ConsoleSessionState,
} from './state.ts';

export interface ConsoleDependencies extends DescribeDependencies {
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly audit: AuditTrail;
}

type OpenSession = Extract<ConsoleSessionState, { kind: 'open' }>;

/** The management application comes first: operations that need no permission run as this one. */
const order: readonly ApplicationType[] = ['management', 'private'];

/** @throws ForbiddenError for a session, and for a public key, which anyone may read in a browser or on a device */
function memberOf({ principal }: RequestContext): ConsoleMember {
  const { actor, applicationId, applicationType, keyHash } = principal;
  if (actor.kind !== 'application' || keyHash === undefined || !order.includes(applicationType))
    throw new ForbiddenError('Only the key of a management or private application can sign in.');
  return { application_id: applicationId, application_type: applicationType, key_hash: keyHash };
}

/** Appends what a session of the console does, by a request or by the vault itself. */
function runIn(
  { store, keyRing }: Pick<ConsoleDependencies, 'store' | 'keyRing'>,
  context: RequestContext,
  id: string,
  command: ConsoleSessionCommand,
) {
  const tenantId = context.principal.tenant.id;
  return execute({
    store,
    stream: streams.consoleSession(tenantId, id),
    decider: consoleSessionDecider,
    command,
    event: context.event.bind(context),
    signing: { signer: consoleSessionSigner, hashes: () => keyRing.hashes(tenantId) },
  });
}

/** Records that a session of the console is in use, so that it does not end as idle. Most calls append nothing. */
export function createConsoleUse(
  dependencies: Pick<ConsoleDependencies, 'store' | 'keyRing'> & { readonly clock: Clock },
) {
  return async (session: { readonly tenantId: string; readonly id: string }): Promise<void> => {
    const context = systemContext(session.tenantId, 'console-expiry', dependencies.clock);
    await runIn(dependencies, context, session.id, { kind: 'use', now: context.now });
  };
}

async function find(
  store: EventStore,
  context: RequestContext,
  id: string,
): Promise<OpenSession | undefined> {
  const stream = streams.consoleSession(context.principal.tenant.id, id);
  const { state } = await load(store, stream, consoleSessionDecider);
  return state.kind === 'open' && !isOver(state, context.now) ? state : undefined;
}

/** @throws NotFoundError for a caller that was not authenticated by the cookie of the console */
async function findOwn(store: EventStore, context: RequestContext): Promise<OpenSession> {
  const { actor } = context.principal;
  const session = actor.kind === 'session' ? await find(store, context, actor.id) : undefined;
  if (!session) throw new NotFoundError('The console session');
  return session;
}

/** The same request with the session of its cookie as the caller. The session may belong to another tenant. */
const asSession = ({ traceId, now }: RequestContext, tenantId: string, id: string) =>
  createRequestContext({
    principal: {
      tenant: { id: tenantId, plan: 'standard', settings: {} },
      actor: { kind: 'session', id },
      applicationId: id,
      applicationType: 'management',
      permissions: [],
      rules: [],
    },
    traceId,
    now,
    request: 'openConsoleSession',
  });

/** The console sessions that a sign-in ended. */
interface Replaced {
  /** The session of the cookie, when the new session may keep its keys. */
  readonly session?: OpenSession | undefined;
  /** The streams of all sessions that have ended, also by another request: its end may not be confirmed. */
  readonly revoked: readonly string[];
}

const successorOf = (state: ConsoleSessionState): string | undefined =>
  state.kind === 'ended' ? state.replacedBy : undefined;

/**
 * Ends the session of the request's cookie. Gives it when it was open until this request ended it: only then the new
 * session may keep its keys, otherwise another request has ended it, and a sign-out must stand.
 * When another request has taken its keys over before, ends the session that has them now. So of all sessions that come
 * from one cookie at most one has keys that its own sign-in did not show. @throws AlteredRecordError
 */
async function replace(
  dependencies: ConsoleDependencies,
  context: RequestContext,
  by: string,
): Promise<Replaced> {
  const sent = await context.consoleSession?.();
  if (!sent) return { revoked: [] };
  const { id: ownTenantId } = context.principal.tenant;
  const { id, secretHash, tenantId = ownTenantId } = sent;
  const isOwn = tenantId === ownTenantId;
  const owner = isOwn ? context : asSession(context, tenantId, id);
  const command = { kind: 'replace', id, secretHash, by: isOwn ? by : undefined } as const;
  const { before } = await runIn(dependencies, owner, id, command);
  if (!isSecretOf(before, secretHash)) return { revoked: [] };
  const revoked = [streams.consoleSession(tenantId, id)];
  for (let next = successorOf(before); next !== undefined;) {
    const ended = await runIn(dependencies, owner, next, { kind: 'end', id: next, reason: 'replaced' });
    revoked.push(streams.consoleSession(tenantId, next));
    next = successorOf(ended.before);
  }
  if (!isOwn || before.kind !== 'open' || isOver(before, context.now)) return { revoked };
  // The end of a session is not signed, but the new session takes its members over.
  requireSigned(consoleSessionSigner, before, await dependencies.keyRing.hashes(ownTenantId));
  return { session: before, revoked };
}

async function keptOf(
  store: EventStore,
  context: RequestContext,
  session: OpenSession | undefined,
  added: ConsoleMember,
): Promise<readonly ConsoleMember[]> {
  const others = (session?.members ?? []).filter(
    ({ application_type: type }) => type !== added.application_type,
  );
  const { id } = context.principal.tenant;
  const active = await Promise.all(others.map((each) => activeMember(store, id, each, context.now)));
  return others.filter((_each, index) => active[index] !== undefined);
}

interface Opened extends Pick<Replaced, 'revoked'> {
  readonly session: ConsoleSession;
  readonly secret: string;
  readonly position: Position | undefined;
}

/** Sessions of the console (docs/reference/console.md). */
export function createConsoleHandlers(dependencies: ConsoleDependencies) {
  const { store, audit } = dependencies;

  return {
    /** @throws ForbiddenError; ConflictError when another request with the same cookie overtook this one */
    async open(context: RequestContext): Promise<Opened> {
      const added = memberOf(context);
      const id = newId();
      const { session: replaced, revoked } = await replace(dependencies, context, id);
      const kept = await keptOf(store, context, replaced, added);
      const members = [added, ...kept].sort(
        (one, other) => order.indexOf(one.application_type) - order.indexOf(other.application_type),
      );
      const secret = generateNonce(id);
      const { position } = await runIn(dependencies, context, id, {
        kind: 'open',
        id,
        secretHash: hashApiKey(secret),
        members,
        notAfter: kept.length > 0 ? replaced?.expiresAt : undefined,
        now: context.now,
      });
      const opened = await find(store, context, id);
      if (!opened) throw new NotFoundError('The console session');
      const session = await describeSession(dependencies, context.principal.tenant.id, opened, context.now);
      return { session, secret, position, revoked };
    },

    /** @throws NotFoundError */
    async show(context: RequestContext): Promise<ConsoleSession> {
      const session = await findOwn(store, context);
      await audit.record(context, EntitiesRead, {
        entity_type: 'session',
        operation: 'read',
        entity_ids: [session.id],
      });
      return describeSession(dependencies, context.principal.tenant.id, session, context.now);
    },

    /** @throws NotFoundError also when another request has ended the session: a session that took its place may have its keys */
    async end(context: RequestContext): Promise<Position> {
      const { id } = await findOwn(store, context);
      const { position } = await runIn(dependencies, context, id, { kind: 'end', id, reason: 'signed_out' });
      if (position === undefined) throw new NotFoundError('The console session');
      return position;
    },
  };
}
export type ConsoleHandlers = ReturnType<typeof createConsoleHandlers>;

import { can, type Principal } from '@token-vault/access';
import {
  AccessDenied,
  AuthenticationFailed,
  EnterpriseRequiredError,
  ForbiddenError,
  NotFoundError,
  UnauthenticatedError,
  UnavailableError,
  ValidationError,
  isUuid,
  type Operation,
  type OperationId,
} from '@token-vault/contracts';
import { parsePosition, type Position } from '@token-vault/event-store';
import type { Request, Response } from 'express';
import type { AuditTrail } from '../audit-trail.ts';
import type { Authenticator, RetiredKey } from '../authentication.ts';
import type { Clock } from '../clock.ts';
import type { IdempotentAnswers } from '../idempotency/port.ts';
import { errorFields, type Logger } from '../logger.ts';
import type { ProjectionProgress } from '../projection-progress.ts';
import { createRequestContext, type RequestContext } from '../request-context.ts';
import type { Answer, Handler } from './handlers.ts';
import { readBody } from './body.ts';
import { checkBodyType, parseBody, parseParams, parseQuery } from './input.ts';
import type { RateLimits } from './rate-limits.ts';

export interface OperationDependencies {
  readonly authenticator: Authenticator;
  readonly audit: AuditTrail;
  readonly progress: ProjectionProgress;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly idempotency?: IdempotentAnswers;
  readonly rateLimits?: RateLimits;
}

export interface OperationCall {
  readonly id: OperationId;
  readonly operation: Operation;
  readonly handler: Handler<OperationId>;
  readonly request: Request;
  readonly response: Response;
  readonly traceId: string;
}

/** How long an answer waits for the read models (architecture.md, Reading your own writes). */
const waitMs = 2000;

const header = (request: Request, name: string): string | undefined => {
  const value = request.headers[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
};

async function authenticate(call: OperationCall, dependencies: OperationDependencies): Promise<Principal> {
  const { authenticator, rateLimits } = dependencies;
  const key = header(call.request, 'svc-api-key');
  rateLimits?.admit(call.request.ip, key);
  const result = key === undefined ? undefined : await authenticator.authenticate(key);
  if (result?.kind === 'authenticated') {
    const { principal, keyHash } = result;
    rateLimits?.passed({ id: principal.actor.id, keyHash }, call.response);
    return principal;
  }
  rateLimits?.failed(call.request.ip, key);
  if (result?.kind === 'retired') await recordRetiredKey(call, result.key, dependencies);
  throw new UnauthenticatedError();
}

async function recordRetiredKey(
  call: OperationCall,
  key: RetiredKey,
  { audit, clock, logger }: OperationDependencies,
): Promise<void> {
  const context = createRequestContext({
    principal: {
      tenant: { id: key.tenantId, plan: 'standard', settings: {} },
      actor: { kind: 'application', id: key.applicationId },
      applicationId: key.applicationId,
      applicationType: 'private',
      permissions: [],
      rules: [],
    },
    traceId: call.traceId,
    now: clock.now(),
    request: call.id,
  });
  const data = { application_id: key.applicationId, reason: key.reason };
  await recordRefusal(audit.record(context, AuthenticationFailed, data), logger, call);
}

/** A refusal shows nothing, so it stays a refusal even when it cannot be recorded. */
async function recordRefusal(
  recording: Promise<unknown>,
  logger: Logger,
  call: OperationCall,
): Promise<void> {
  try {
    await recording;
  } catch (error) {
    logger.warn(
      {
        trace_id: call.traceId,
        operation: call.id,
        ...errorFields(error),
      },
      'refusal not recorded',
    );
  }
}

function authorize({ operation }: OperationCall, principal: Principal): void {
  if (operation.plan === 'enterprise' && principal.tenant.plan !== 'enterprise') {
    throw new EnterpriseRequiredError(operation.summary);
  }
  if (operation.permission !== null && !can(principal, operation.permission)) {
    throw new ForbiddenError(`The caller lacks the permission ${operation.permission}.`);
  }
}

function transactionIdOf({ operation, request }: OperationCall, principal: Principal): string | undefined {
  const id = operation.isEnlistable ? header(request, 'svc-transaction-id') : undefined;
  if (id === undefined) return undefined;
  if (!isUuid(id)) throw ValidationError.of('SVC-TRANSACTION-ID', 'must be a UUID');
  if (principal.tenant.plan !== 'enterprise') throw new EnterpriseRequiredError('A transaction');
  return id.toLowerCase();
}

async function waitForGivenPosition(call: OperationCall, progress: ProjectionProgress): Promise<void> {
  const given = call.operation.service === 'query' ? header(call.request, 'svc-position') : undefined;
  if (given === undefined) return;
  let position: Position;
  try {
    position = parsePosition(given);
  } catch (cause) {
    throw new ValidationError(
      { 'SVC-POSITION': ['must be a position that this vault has answered'] },
      { cause },
    );
  }
  if (!(await progress.reach(position, waitMs))) {
    throw new UnavailableError('The read models have not reached SVC-POSITION yet.');
  }
}

/** After a write to one of these, what is cached of callers may be old. */
const callersAreMadeOf: ReadonlySet<string> = new Set(['application', 'session', 'tenant']);

/** Makes what the answer says visible to any later read, on any replica, before it leaves. */
async function waitForOwnWrite(
  call: OperationCall,
  answer: Answer,
  dependencies: OperationDependencies,
): Promise<void> {
  const { position } = answer;
  if (position === undefined) return;
  call.response.setHeader('SVC-POSITION', position);
  if (call.operation.isLoggedOnly) return;
  const isAsync = header(call.request, 'prefer')?.includes('respond-async') ?? false;
  const isVisible = !isAsync && (await dependencies.progress.waitFor(position, waitMs));
  if (!isVisible) call.response.setHeader('SVC-CONSISTENCY', 'pending');
  if (callersAreMadeOf.has(call.operation.entity)) dependencies.authenticator.forget();
}

async function runHandler(
  call: OperationCall,
  principal: Principal,
  dependencies: OperationDependencies,
): Promise<Answer> {
  const { operation, request } = call;
  checkBodyType(operation, request);
  const params = parseParams(operation, request);
  const query = parseQuery(operation, request);
  const body = operation.body ? parseBody(operation, await readBody(request)) : undefined;
  const transactionId = transactionIdOf(call, principal);
  await waitForGivenPosition(call, dependencies.progress);

  const run = async (idempotencyScope?: readonly string[]): Promise<Answer> => {
    const now = dependencies.clock.now();
    const { traceId, id: request } = call;
    const options = { principal, traceId, now, transactionId, request, idempotencyScope };
    const context: RequestContext = createRequestContext(options);
    return call.handler({ params, query, body } as Parameters<Handler<OperationId>>[0], context);
  };
  const key = header(request, 'svc-idempotency-key');
  if (
    key === undefined ||
    !dependencies.idempotency ||
    !['POST', 'PUT', 'PATCH'].includes(operation.method)
  ) {
    return run();
  }
  // The parsed path, so that another spelling of it (a trailing slash, an escape) is the same request.
  const path = JSON.stringify([operation.path, params ?? null]);
  return dependencies.idempotency.run({ principal, method: operation.method, path, key }, run);
}

/** Authenticate, authorise, validate, handle, wait for the read models: the same steps for every operation. */
export async function runOperation(
  call: OperationCall,
  dependencies: OperationDependencies,
): Promise<Answer> {
  if (!(await dependencies.progress.recovered(waitMs))) {
    throw new UnavailableError('The read models are catching up after a loss of their database.');
  }
  const { losses } = dependencies.progress;
  // Who is known, or no longer, is read there as well, for commands too.
  const principal = await authenticate(call, dependencies).finally(() =>
    assertNothingLost(losses, dependencies),
  );
  const isQuery = call.operation.service === 'query';
  let isAuthorized = false;
  try {
    authorize(call, principal);
    isAuthorized = true;
    const answer = await runHandler(call, principal, dependencies);
    if (isQuery) assertNothingLost(losses, dependencies);
    await waitForOwnWrite(call, answer, dependencies);
    return answer;
  } catch (error) {
    // What is not found may not be found again yet.
    if (isQuery && error instanceof NotFoundError) assertNothingLost(losses, dependencies);
    const isRefusal = error instanceof ForbiddenError || error instanceof EnterpriseRequiredError;
    if (isRefusal) await recordDenied(call, principal, isAuthorized, dependencies);
    throw error;
  }
}

/** What waited for a new connection may have read what a crashed database was set back to. */
function assertNothingLost(losses: number, { progress }: OperationDependencies): void {
  if (progress.losses !== losses)
    throw new UnavailableError('The database of the read models was lost meanwhile.');
}

async function recordDenied(
  call: OperationCall,
  principal: Principal,
  isEntityFound: boolean,
  { audit, clock, logger }: OperationDependencies,
): Promise<void> {
  const context = createRequestContext({
    principal,
    traceId: call.traceId,
    now: clock.now(),
    request: call.id,
  });
  const { operation, request } = call;
  // Checked: what a database cannot hold (a NUL) must not get into the log, whose projection it would stop.
  const params = operation.params?.safeParse(request.params).data as { id?: unknown } | undefined;
  // Before the entity was looked up, `id` is whatever the caller wrote, perhaps a card number: only a UUID is kept then.
  const given = typeof params?.id === 'string' ? params.id : undefined;
  const id = given !== undefined && (isEntityFound || isUuid(given)) ? given : undefined;
  const data = {
    entity_type: operation.entity,
    ...(id === undefined ? {} : { entity_id: id }),
    ...(operation.permission === null ? {} : { permission: operation.permission }),
    operation: call.id,
  };
  await recordRefusal(audit.record(context, AccessDenied, data), logger, call);
}

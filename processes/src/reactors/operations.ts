import { can, type Principal } from '@token-vault/access';
import {
  AccessDenied,
  EnterpriseRequiredError,
  ForbiddenError,
  operations,
  UnauthenticatedError,
  UnavailableError,
  ValidationError,
  type Json,
  type Operation,
} from '@token-vault/contracts';
import type { RunOrigin, ServiceRequest, VaultOperations } from '@token-vault/reactor-runner';
import {
  createRequestContext,
  problemDetails,
  toProblem,
  type AuditTrail,
  type Clock,
  type Handler,
  type Handlers,
  type ProjectionProgress,
  type RequestContext,
} from '@token-vault/service-kit';
import type { Principals } from './principals.ts';

export interface OperationDependencies {
  readonly handlers: Handlers;
  readonly principals: Principals;
  readonly audit: AuditTrail;
  readonly progress: ProjectionProgress;
  readonly clock: Clock;
}

/** As over HTTP: code that creates a token finds it at once. */
const waitMs = 2_000;
const maxPathLength = 200;

/** The answer of the vault to reactor code that it refused. */
class ServiceRefusal extends Error {
  readonly status: number;
  readonly problem: Json;
  constructor(status: number, problem: Json, cause: unknown) {
    super('the service refused the request of a reactor', { cause });
    this.status = status;
    this.problem = problem;
  }
}

function parse(schema: Operation['body'], value: Json | undefined, root: string): unknown {
  if (!schema) return undefined;
  const result = schema.safeParse(value === undefined ? {} : value);
  if (result.success) return result.data;
  const errors: Record<string, string[]> = {};
  for (const issue of result.error.issues) {
    const path = issue.path.map(String).join('.').slice(0, maxPathLength) || root;
    (errors[path] ??= []).push(issue.message);
  }
  throw new ValidationError(errors);
}

function authorize(operation: Operation, principal: Principal): void {
  if (operation.plan === 'enterprise' && principal.tenant.plan !== 'enterprise')
    throw new EnterpriseRequiredError(operation.summary);
  if (operation.permission !== null && !can(principal, operation.permission))
    throw new ForbiddenError(`The caller lacks the permission ${operation.permission}.`);
}

/** Names the run as the cause of what happens in it. */
function contextOf(
  principal: Principal,
  origin: RunOrigin,
  now: Date,
  scope?: readonly string[],
): RequestContext {
  const { traceId, invocationId } = origin;
  const context = createRequestContext({ principal, traceId, now, idempotencyScope: scope });
  const metadata = { ...context.metadata, causation_id: invocationId };
  return {
    ...context,
    metadata,
    event: (definition, data) => ({ ...context.event(definition, data), metadata }),
  };
}

/** Answers what reactor code asks of the vault by the handlers of this process, with all that goes with a request. */
export class LocalOperations implements VaultOperations {
  readonly #dependencies: OperationDependencies;

  constructor(dependencies: OperationDependencies) {
    this.#dependencies = dependencies;
  }

  async asApplication(applicationId: string, request: ServiceRequest, origin: RunOrigin): Promise<Json> {
    const { principals, clock } = this.#dependencies;
    try {
      const principal = await principals.application(origin.tenantId, applicationId);
      if (!principal) throw new UnauthenticatedError('The application of the reactor is gone.');
      const context = contextOf(principal, origin, clock.now());
      return await this.#answerOrRecord(request, context);
    } catch (error) {
      const problem = toProblem(error);
      const instance = operations[request.operation].path;
      const details = problemDetails(problem, instance, origin.traceId) as unknown as Json;
      throw new ServiceRefusal(problem.status, details, error);
    }
  }

  async tokenize(payload: Json, actor: Principal['actor'], origin: RunOrigin): Promise<Json> {
    const { principals, clock } = this.#dependencies;
    const tenant = await principals.tenant(origin.tenantId);
    if (!tenant) throw new UnauthenticatedError('The tenant is gone.');
    // Invoking takes token:use alone; what the output becomes is the reactor's doing, and shown as masked.
    const principal: Principal = {
      tenant,
      actor,
      applicationId: actor.id,
      applicationType: 'private',
      permissions: ['token:create'],
      rules: [],
    };
    const scope = ['reactor output', origin.tenantId, origin.invocationId];
    const context = contextOf(principal, origin, clock.now(), scope);
    return this.#answer({ operation: 'tokenize', body: payload }, context);
  }

  async #answer(request: ServiceRequest, context: RequestContext): Promise<Json> {
    const { handlers, progress } = this.#dependencies;
    const operation: Operation = operations[request.operation];
    authorize(operation, context.principal);
    const input = {
      params: parse(operation.params, request.params, 'path'),
      query: parse(operation.query, request.query, 'query'),
      body: parse(operation.body, request.body, 'body'),
    };
    const handler = handlers[request.operation] as Handler<typeof request.operation> | undefined;
    if (!handler) throw new UnavailableError('The operation is not available here.');
    const { body, position } = await handler(input as never, context);
    if (position !== undefined && !operation.isLoggedOnly) await progress.waitFor(position, waitMs);
    // As JSON: what is undefined in an answer is absent on the wire.
    return body === undefined ? null : (JSON.parse(JSON.stringify(body)) as Json);
  }

  async #answerOrRecord(request: ServiceRequest, context: RequestContext): Promise<Json> {
    try {
      return await this.#answer(request, context);
    } catch (error) {
      const isRefusal = error instanceof ForbiddenError || error instanceof EnterpriseRequiredError;
      if (isRefusal) await this.#recordDenied(request, context);
      throw error;
    }
  }

  async #recordDenied(request: ServiceRequest, context: RequestContext): Promise<void> {
    const { entity, permission, params }: Operation = operations[request.operation];
    // Checked: what a database cannot hold (a NUL) must not get into the log, whose projection it would stop.
    const id = (params?.safeParse(request.params).data as { id?: unknown } | undefined)?.id;
    const data = {
      entity_type: entity,
      ...(typeof id === 'string' ? { entity_id: id } : {}),
      ...(permission === null ? {} : { permission }),
      operation: request.operation,
    };
    // A refusal shows nothing, so it stays one even when it cannot be recorded.
    await this.#dependencies.audit.record(context, AccessDenied, data).catch(() => undefined);
  }
}

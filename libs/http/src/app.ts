import {
  methodsOf,
  operations,
  type Operation,
  type OperationId,
  type ProblemCode,
} from '@token-vault/contracts';
import {
  createExecutor,
  type ApplicationReplay,
  type AuditTrail,
  type Clock,
  type Executor,
  type FindEntity,
  type Handlers,
  type IdempotentAnswers,
  type ReadModelWatch,
  type Revocations,
  type Space,
  type TokenReplay,
} from '@token-vault/operations';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import { errorFields, type Logger } from '@token-vault/observability';
import type { RequestObserver } from './request-metrics.ts';
import type { ProjectionProgress } from '@token-vault/read-models';
import { sendJson, sendProblem } from './answer.ts';
import { sendCustom } from './custom-answer.ts';
import { runOperation, type HttpCallers } from './operation.ts';
import { toProblem, type Problem } from './problem.ts';
import { parseQuery } from './query.ts';
import { sendStream } from './stream-answer.ts';
import { traceIdOf } from './trace-id.ts';

export interface AppDependencies extends HttpCallers {
  readonly handlers: Handlers;
  readonly audit: AuditTrail;
  readonly progress: ProjectionProgress;
  readonly watch: ReadModelWatch;
  readonly revocations: Revocations;
  readonly storage: Space;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly idempotency?: IdempotentAnswers;
  readonly tokenReplay?: TokenReplay;
  readonly applicationReplay?: ApplicationReplay;
  readonly findEntity?: FindEntity;
  /** The peers whose `X-Forwarded-…` is believed, as in Express's `trust proxy`; none by default. */
  readonly trustProxy?: string | number | boolean;
  /** VAULT_HANDLING: unknown fields are ignored, also without `Prefer: handling=lenient`. */
  readonly isLenient?: boolean;
  readonly onAnswered?: RequestObserver;
}

const notFound: Problem = { status: 404, code: 'not_found', detail: 'There is nothing at this path.' };

/** Failures of a tenant's code and of its destinations, which a caller can cause as often as it likes. They are no fault of the vault. */
const failuresOfTenants: ReadonlySet<ProblemCode> = new Set<ProblemCode>([
  'reactor_failed',
  'destination_failed',
  'destination_timed_out',
]);

function logFailure(
  logger: Logger,
  error: unknown,
  problem: Problem,
  fields: { trace_id: string; operation: string },
): void {
  const { status, code } = problem;
  if (failuresOfTenants.has(code)) {
    logger.info({ ...fields, status, code }, 'code or a destination of the tenant failed');
    return;
  }
  if (status >= 500 && status !== 503) {
    logger.error({ ...fields, status, ...errorFields(error) }, 'request failed');
    return;
  }
  // One lost store refuses every request. Without a trace id these lines are counted as one.
  if (status === 503) logger.warn({ status, ...errorFields(error) }, 'requests are refused for now');
  logger.debug({ ...fields, status, code }, 'request refused');
}

function expressPath(path: string): string {
  return path.replace(/\/\{(\w+)\*\}$/, '{/*$1}').replaceAll(/\{(\w+)\}/g, ':$1');
}

/** One route of the table. Exactly one answer leaves in every case; errors leave as problems. */
function route(id: OperationId, operation: Operation, executor: Executor, dependencies: AppDependencies) {
  return async (request: Request, response: Response): Promise<void> => {
    const sinceMs = performance.now();
    const traceId = traceIdOf(request, response);
    try {
      const answer = await runOperation({ id, request, response, traceId }, executor, dependencies);
      const status = answer.status ?? operation.success;
      if (answer.stream) await sendStream(response, answer.stream);
      else if (answer.headers === undefined) sendJson(response, status, answer.body);
      else sendCustom(response, status, answer.headers, answer.body);
    } catch (error) {
      const problem = toProblem(error);
      logFailure(dependencies.logger, error, problem, { trace_id: traceId, operation: id });
      sendProblem(response, problem, request.path, traceId);
    }
    const seconds = (performance.now() - sinceMs) / 1000;
    dependencies.onAnswered?.({ operation: id, status: response.statusCode, seconds, traceId });
  };
}

/**
 * The HTTP edge of a service, derived from the operations table: every operation that has a handler, 405 for other methods of a path of the
 * table, 404 for other paths. Trailing slashes are accepted (Express's default routing is not strict).
 */
export function createApp(dependencies: AppDependencies): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.set('trust proxy', dependencies.trustProxy ?? false);
  app.set('query parser', parseQuery);
  // Routes that others mount on the app (health, metrics, documents) echo the trace id, too.
  app.use((request: Request, response: Response, next: NextFunction) => {
    traceIdOf(request, response);
    next();
  });
  const executor = executorOf(dependencies);
  const methods = new Map<string, string[]>();
  for (const [path, allowed] of methodsOfLiterals()) app.all(path, refuseOtherMethods(allowed));
  for (const [id, operation] of Object.entries(operations) as [OperationId, Operation][]) {
    const path = expressPath(operation.path);
    // Includes the operations of the other service, so that a gateway may ask either service for the methods of a path.
    methods.set(path, [...(methods.get(path) ?? []), ...methodsOf(operation)]);
    if (!dependencies.handlers[id]) continue;
    for (const method of methodsOf(operation))
      app[method.toLowerCase() as 'get'](path, route(id, operation, executor, dependencies));
  }
  for (const [path, allowed] of methods) app.all(path, refuseMethod(allowed));
  return app;
}

function executorOf({ logger, authenticator, ...dependencies }: AppDependencies): Executor {
  return createExecutor({
    ...dependencies,
    forgetCallers: () => authenticator.forget(),
    onUnrecorded: (error, { traceId }, id) =>
      logger.warn({ trace_id: traceId, operation: id, ...errorFields(error) }, 'refusal not recorded'),
  });
}

const all = Object.values<Operation>(operations);

/** Whether Express also gives requests for `literal`, a path of the table, to `operation`, which has an id in that place. */
function takes(operation: Operation, literal: string): boolean {
  const [wanted, given] = [operation.path.split('/'), literal.split('/')];
  return (
    operation.path.includes('{') &&
    wanted.length === given.length &&
    wanted.every((segment, index) => segment.startsWith('{') || segment === given[index])
  );
}

/** Whether `literal`, a path of the table, also matches the path of `operation` with a valid id. */
function isAlsoOf(operation: Operation, literal: string): boolean {
  if (operation.path === literal) return true;
  if (!takes(operation, literal)) return false;
  const given = literal.split('/');
  const params = operation.path
    .split('/')
    .flatMap((segment, index) => (segment.startsWith('{') ? [[segment.slice(1, -1), given[index]]] : []));
  return operation.params === undefined || operation.params.safeParse(Object.fromEntries(params)).success;
}

/**
 * The methods of paths without ids that Express would take for another path with one: `PUT /applications/key` does not address an
 * application with the id `key`. Other paths need no entry here, and each entry costs every request a comparison.
 */
function methodsOfLiterals(): Map<string, string[]> {
  const literals = new Set(all.map(({ path }) => path).filter((path) => !path.includes('{')));
  const ambiguous = [...literals].filter((path) => all.some((operation) => takes(operation, path)));
  return new Map(
    ambiguous.map((literal) => [
      literal,
      all.filter((operation) => isAlsoOf(operation, literal)).flatMap(methodsOf),
    ]),
  );
}

function refuseOtherMethods(allowed: readonly string[]) {
  const refuse = refuseMethod(allowed);
  return (request: Request, response: Response, next: NextFunction): void => {
    // Express answers HEAD with the handler of GET.
    const isAllowed = allowed.includes(request.method === 'HEAD' ? 'GET' : request.method);
    if (isAllowed) next();
    else refuse(request, response);
  };
}

function refuseMethod(allowed: readonly string[]) {
  return (request: Request, response: Response): void => {
    const traceId = traceIdOf(request, response);
    response.setHeader('Allow', allowed.join(', '));
    const problem: Problem = {
      status: 405,
      code: 'method_not_allowed',
      detail: `Allowed here: ${allowed.join(', ')}.`,
    };
    sendProblem(response, problem, request.path, traceId);
  };
}

/** The last routes of an app: unknown paths, and errors of Express itself (a path that cannot be decoded). */
export function finishApp(app: Express, logger: Logger): void {
  app.use((request: Request, response: Response) => {
    const traceId = traceIdOf(request, response);
    sendProblem(response, notFound, request.path, traceId);
  });
  // Express recognises an error handler by its four parameters.
  app.use((error: unknown, request: Request, response: Response, _next: unknown) => {
    const traceId = traceIdOf(request, response);
    const problem = toProblem(error);
    logFailure(logger, error, problem, { trace_id: traceId, operation: 'none' });
    sendProblem(response, problem, request.path, traceId);
  });
}

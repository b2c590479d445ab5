import { operations, type Operation, type OperationId } from '@token-vault/contracts';
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
  type TokenReplay,
} from '@token-vault/operations';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import { errorFields, type Logger } from '../logger.ts';
import type { RequestObserver } from '../metrics/requests.ts';
import type { ProjectionProgress } from '../projection-progress.ts';
import { sendJson, sendProblem } from './answer.ts';
import { sendCustom } from './custom-answer.ts';
import { runOperation, type HttpCallers } from './operation.ts';
import { toProblem, type Problem } from './problem.ts';
import { parseQuery } from './query.ts';
import { traceIdOf } from './trace-id.ts';

export interface AppDependencies extends HttpCallers {
  readonly handlers: Handlers;
  readonly audit: AuditTrail;
  readonly progress: ProjectionProgress;
  readonly watch: ReadModelWatch;
  readonly revocations: Revocations;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly idempotency?: IdempotentAnswers;
  readonly tokenReplay?: TokenReplay;
  readonly applicationReplay?: ApplicationReplay;
  readonly findEntity?: FindEntity;
  /** Which peers may say for whom they speak (`X-Forwarded-For`), as Express's `trust proxy`; none by default. */
  readonly trustProxy?: string | number | boolean;
  /** VAULT_HANDLING: unknown fields are ignored, also without `Prefer: handling=lenient`. */
  readonly isLenient?: boolean;
  readonly onAnswered?: RequestObserver;
}

const notFound: Problem = { status: 404, code: 'not_found', detail: 'There is nothing at this path.' };

function logFailure(
  logger: Logger,
  error: unknown,
  problem: Problem,
  fields: { trace_id: string; operation: string },
): void {
  if (problem.status >= 500)
    logger.error({ ...fields, status: problem.status, ...errorFields(error) }, 'request failed');
  else logger.debug({ ...fields, status: problem.status, code: problem.code }, 'request refused');
}

function expressPath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1');
}

/** One route of the table: whatever happens in it, exactly one answer leaves, and errors leave as problems. */
function route(id: OperationId, operation: Operation, executor: Executor, dependencies: AppDependencies) {
  return async (request: Request, response: Response): Promise<void> => {
    const sinceMs = performance.now();
    const traceId = traceIdOf(request);
    response.setHeader('SVC-TRACE-ID', traceId);
    try {
      const answer = await runOperation({ id, request, response, traceId }, executor, dependencies);
      const status = answer.status ?? operation.success;
      if (answer.headers === undefined) sendJson(response, status, answer.body);
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
 * The HTTP edge of a service, derived from the operations table: every operation that has a handler, 405 for other methods
 * of a path of the table, 404 for the rest. Trailing slashes are accepted (Express's default routing is not strict).
 */
export function createApp(dependencies: AppDependencies): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  app.set('trust proxy', dependencies.trustProxy ?? false);
  app.set('query parser', parseQuery);
  const executor = executorOf(dependencies);
  const methods = new Map<string, string[]>();
  for (const [path, allowed] of methodsOfLiterals()) app.all(path, refuseOtherMethods(allowed));
  for (const [id, operation] of Object.entries(operations) as [OperationId, Operation][]) {
    const path = expressPath(operation.path);
    // Those of the other service too, so that a gateway may ask either which methods a path has.
    methods.set(path, [...(methods.get(path) ?? []), operation.method]);
    if (!dependencies.handlers[id]) continue;
    app[operation.method.toLowerCase() as 'get'](path, route(id, operation, executor, dependencies));
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

/** Whether `literal`, a path of the table, is also one of `operation` with some id; what no id can look like is none. */
function isAlsoOf(operation: Operation, literal: string): boolean {
  const [wanted, given] = [operation.path.split('/'), literal.split('/')];
  if (wanted.length !== given.length) return false;
  const params: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const value = given[index] ?? '';
    if (segment.startsWith('{')) params[segment.slice(1, -1)] = value;
    else if (segment !== value) return false;
  }
  return operation.params === undefined || operation.params.safeParse(params).success;
}

/** Of paths without ids: `PUT /applications/key` is not about an application called key. */
function methodsOfLiterals(): Map<string, string[]> {
  const literals = new Set(all.map(({ path }) => path).filter((path) => !path.includes('{')));
  return new Map(
    [...literals].map((literal) => [
      literal,
      all.filter((operation) => isAlsoOf(operation, literal)).map(({ method }) => method),
    ]),
  );
}

function refuseOtherMethods(allowed: readonly string[]) {
  const refuse = refuseMethod(allowed);
  return (request: Request, response: Response, next: NextFunction): void => {
    // Express answers HEAD by what answers GET.
    const isAllowed = allowed.includes(request.method === 'HEAD' ? 'GET' : request.method);
    if (isAllowed) next();
    else refuse(request, response);
  };
}

function refuseMethod(allowed: readonly string[]) {
  return (request: Request, response: Response): void => {
    const traceId = traceIdOf(request);
    response.setHeader('SVC-TRACE-ID', traceId);
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
    const traceId = traceIdOf(request);
    response.setHeader('SVC-TRACE-ID', traceId);
    sendProblem(response, notFound, request.path, traceId);
  });
  // Express knows an error handler by its four parameters.
  app.use((error: unknown, request: Request, response: Response, _next: unknown) => {
    const traceId = traceIdOf(request);
    response.setHeader('SVC-TRACE-ID', traceId);
    const problem = toProblem(error);
    logFailure(logger, error, problem, { trace_id: traceId, operation: 'none' });
    sendProblem(response, problem, request.path, traceId);
  });
}

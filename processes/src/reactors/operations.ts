import type { Principal } from '@token-vault/access';
import { operations, UnauthenticatedError, type Caused, type Json } from '@token-vault/contracts';
import {
  createExecutor,
  type Executor,
  type ExecutorDependencies,
  type Identity,
} from '@token-vault/operations';
import type { RunOrigin, ServiceRequest, VaultOperations } from '@token-vault/reactor-runner';
import { problemDetails, toProblem } from '@token-vault/service-kit';
import type { Principals } from './principals.ts';

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

/** Runs a request of a reactor as `principal`. Gives the body as it would be on the wire, where undefined is absent. */
async function answerTo(
  executor: Executor,
  { operation, params = {}, query = {}, body = {} }: ServiceRequest,
  { traceId, invocationId, onTokens }: RunOrigin,
  caller: { identify: () => Promise<Identity>; idempotencyScope?: readonly string[] },
): Promise<Json> {
  const { answer } = await executor.execute(operation, {
    traceId,
    causationId: invocationId,
    idempotencyScope: caller.idempotencyScope,
    identify: caller.identify,
    params,
    query,
    readBody: () => Promise.resolve(body),
  });
  onTokens(answer.tokens ?? []);
  return answer.body === undefined ? null : (JSON.parse(JSON.stringify(answer.body)) as Json);
}

/** Answers what reactors ask of the vault by the executor of this process. */
export function createReactorOperations(
  dependencies: ExecutorDependencies & { readonly principals: Principals },
): VaultOperations {
  const { principals } = dependencies;
  const executor = createExecutor(dependencies);

  /** It was there when the reactor was made. One that has ended is refused and recorded as its key is over HTTP. */
  async function applicationOf({ tenantId }: RunOrigin, applicationId: string): Promise<Identity> {
    const principal = await principals.application(tenantId, applicationId);
    if (principal) return { kind: 'authenticated', principal };
    const key = { tenantId, applicationId, reason: 'ended' };
    return { kind: 'retired', key, detail: 'The application of the reactor is gone.' };
  }

  /** Invoking takes token:use alone; what the output becomes is the reactor's doing, and shown as masked. */
  async function outputWriterOf({ tenantId }: RunOrigin, invoker: Caused): Promise<Identity> {
    const tenant = await principals.tenant(tenantId);
    if (!tenant) throw new UnauthenticatedError('The tenant is gone.');
    const applicationType = 'private';
    const permissions = ['token:create'] as const;
    const { actor, application_id: authorizedBy } = invoker;
    const who = { actor, applicationId: actor.id, ...(authorizedBy === undefined ? {} : { authorizedBy }) };
    const principal: Principal = { tenant, ...who, applicationType, permissions, rules: [] };
    return { kind: 'authenticated', principal };
  }

  return {
    async asApplication(applicationId, request, origin) {
      try {
        const identify = () => applicationOf(origin, applicationId);
        return await answerTo(executor, request, origin, { identify });
      } catch (error) {
        const problem = toProblem(error);
        const instance = operations[request.operation].path;
        const details = problemDetails(problem, instance, origin.traceId) as unknown as Json;
        throw new ServiceRefusal(problem.status, details, error);
      }
    },

    tokenize(payload, invoker, origin) {
      const identify = () => outputWriterOf(origin, invoker);
      const idempotencyScope = ['reactor output', origin.tenantId, origin.invocationId];
      const request = { operation: 'tokenize', body: payload } as const;
      return answerTo(executor, request, origin, { identify, idempotencyScope });
    },
  };
}

import type { Principal } from '@token-vault/access';
import {
  operations,
  secret,
  UnauthenticatedError,
  type Caused,
  type Json,
  type ProblemDetails,
} from '@token-vault/contracts';
import {
  createExecutor,
  DataDependentError,
  type AnswerToken,
  type Executor,
  type ExecutorDependencies,
  type Identity,
  type MadeOf,
  type Showing,
} from '@token-vault/operations';
import type { OutputWriter, RunOrigin, ShownToken, VaultOperations } from '@token-vault/reactor-runner';
import { problemDetails, toProblem } from '@token-vault/http';
import type { Principals } from './principals.ts';
import { prepareOutput, prepareTemplate, type Prepared } from './templates.ts';

/** The vault refused a request of reactor code. */
class ServiceRefusal extends Error {
  readonly status: number;
  readonly problem: ProblemDetails;
  constructor(status: number, problem: ProblemDetails, cause: unknown) {
    super('the service refused the request of a reactor', { cause });
    this.status = status;
    this.problem = problem;
  }
}

const tellsOfData = (error: unknown): error is DataDependentError => error instanceof DataDependentError;

const used: Showing = { permission: 'token:use', transform: 'reveal' };

/**
 * A token that the code of `applicationId` is shown, or a run that it asked for. Tokens that an inner run was shown keep the application of
 * that run.
 */
function shownToken({ id, createdAt, by, shown, cvcEndsAt }: AnswerToken, applicationId: string): ShownToken {
  const token = { id, createdAt, cvcEndsAt };
  const showing = by === 'use' ? used : shown;
  if (!showing) return token;
  return { ...token, shown: { ...showing, applicationId: showing.applicationId ?? applicationId } };
}

/**
 * Runs a request of a reactor as `principal`. Gives the body as HTTP would send it, without undefined fields. `onShown` gets the tokens that
 * went into the answer, or into an error that depends on data: the code can read such an error too.
 */
async function answerTo(
  executor: Executor,
  { operation, params = {}, query = {}, body = {}, named, isGuess }: Prepared,
  origin: RunOrigin,
  caller: {
    readonly identify: () => Promise<Identity>;
    readonly idempotencyScope?: readonly string[];
    readonly onShown: (madeOf: MadeOf) => void;
  },
): Promise<Json> {
  if (named.length > 0) origin.onTokens(await origin.useNamed(named));
  const { traceId, invocationId, reason, parents, refusals } = origin;
  const execute = () =>
    executor.execute(operation, {
      traceId,
      causationId: invocationId,
      parents: parents(),
      refusals,
      reason,
      idempotencyScope: caller.idempotencyScope,
      identify: caller.identify,
      params,
      query,
      readBody: () => Promise.resolve(secret(body)),
    });
  const executed = isGuess ? origin.guess(tellsOfData, execute) : execute();
  const { answer } = await executed.catch((error: unknown) => {
    if (tellsOfData(error)) caller.onShown(error.madeOf);
    throw error;
  });
  caller.onShown(answer);
  if (answer.deleted) origin.onDeleted?.(answer.deleted);
  return answer.body === undefined ? null : (JSON.parse(JSON.stringify(answer.body)) as Json);
}

/** An invocation has one output. */
const scopeOfOutput = ({ tenantId, invocationId }: RunOrigin): readonly string[] => [
  'reactor output',
  tenantId,
  invocationId,
];

/**
 * The application existed when the reactor was created. When it has ended, the request is refused and recorded, as
 * with its key over HTTP.
 */
async function applicationOf(
  principals: Principals,
  { tenantId, shownAtMost }: RunOrigin,
  applicationId: string,
): Promise<Identity> {
  const found = await principals.application(tenantId, applicationId);
  const principal = found && shownAtMost !== undefined ? { ...found, shownAtMost } : found;
  if (principal) return { kind: 'authenticated', principal };
  const key = { tenantId, applicationId, reason: 'ended' };
  return { kind: 'retired', key, detail: 'The application of the reactor is gone.' };
}

/**
 * Invoking needs `token:use` only. The reactor makes the tokens of its output, of data that the invoker may not see, so the invoker is shown them
 * masked at most, and by its rights to read them.
 */
async function invokerOf(
  principals: Principals,
  { tenantId, shownAtMost, reason }: RunOrigin,
  invoker: Caused,
): Promise<Identity> {
  const tenant = await principals.tenant(tenantId);
  if (!tenant) throw new UnauthenticatedError('The tenant is gone.');
  const applicationType = 'private';
  const permissions = ['token:create'] as const;
  const { actor, application_id: authorizedBy } = invoker;
  // Limits count for an application, also when a session or reactor code acts for it.
  const applicationId = await principals.applicationIdOf(tenantId, actor);
  const who = { actor, applicationId, ...(authorizedBy === undefined ? {} : { authorizedBy }) };
  const bound = shownAtMost === undefined ? {} : { shownAtMost };
  const principal: Principal = { tenant, ...who, applicationType, permissions, rules: [], ...bound };
  const found = await principals.byActor(tenantId, actor);
  const reader = found
    ? { ...found, ...bound, ...(reason === undefined ? {} : { reason }) }
    : noReader(principal);
  return { kind: 'authenticated', principal: { ...principal, reader } };
}

/** For an invoker that has ended. */
const noReader = (principal: Principal): Principal => ({ ...principal, permissions: [] });

const queriesDecidedEachMs = 1_000;

/**
 * A query carries nothing out, but the log shows its order to others. So code whose run has lost a right reads for a second at most. To
 * decide each query would cost a look at every token that the code was shown.
 */
function createQueryDecision(): (origin: RunOrigin) => Promise<void> {
  const decidedAt = new WeakMap<RunOrigin, number>();
  return async (origin) => {
    const nowMs = performance.now();
    if (nowMs - (decidedAt.get(origin) ?? origin.beganAtMs) < queriesDecidedEachMs) return;
    await origin.requireActing();
    decidedAt.set(origin, nowMs);
  };
}

/** The output of a reactor made these tokens, so no right of an application decides about them. The output of a proxy is decided like a request. */
const shownOutput = (token: AnswerToken, writer: OutputWriter): ShownToken =>
  'invoker' in writer
    ? { id: token.id, createdAt: token.createdAt, cvcEndsAt: token.cvcEndsAt }
    : shownToken(token, writer.applicationId);

/** Answers requests of reactor code by the executor of this process. */
export function createReactorOperations(
  dependencies: ExecutorDependencies & { readonly principals: Principals },
): VaultOperations {
  const { principals } = dependencies;
  const executor = createExecutor(dependencies);
  const decideQuery = createQueryDecision();

  return {
    async asApplication(applicationId, request, origin) {
      try {
        const isChange = operations[request.operation].service === 'command';
        const prepared = prepareTemplate(request);
        const identify = async () => {
          await (isChange ? origin.requireActing() : decideQuery(origin));
          return applicationOf(principals, origin, applicationId);
        };
        const onShown = ({ tokens = [], isUnrepeatable = false }: MadeOf) =>
          origin.onTokens(
            tokens.map((token) => shownToken(token, applicationId)),
            !isUnrepeatable,
          );
        return await answerTo(executor, prepared, origin, { identify, onShown });
      } catch (error) {
        const problem = toProblem(error);
        const instance = operations[request.operation].path;
        const details = problemDetails(problem, instance, origin.traceId);
        throw new ServiceRefusal(problem.status, details, error);
      }
    },

    tokenize(output, writer: OutputWriter, origin) {
      const identify = async () => {
        await origin.requireActing();
        return 'invoker' in writer
          ? invokerOf(principals, origin, writer.invoker)
          : applicationOf(principals, origin, writer.applicationId);
      };
      const idempotencyScope = scopeOfOutput(origin);
      const request = prepareOutput(output);
      const onShown = ({ tokens = [] }: MadeOf) =>
        origin.onTokens(tokens.map((token) => shownOutput(token, writer)));
      return answerTo(executor, request, origin, { identify, idempotencyScope, onShown });
    },
  };
}

import type { Principal } from '@token-vault/access';
import {
  NotFoundError,
  operations,
  readsBody,
  UnavailableError,
  type Operation,
  type OperationId,
  type RawRequest,
} from '@token-vault/contracts';
import {
  authenticate,
  contextOf,
  principalNow,
  stillAdmitted,
  workFor,
  type AdmissionDependencies,
  type Admitted,
  type Call,
} from './admission.ts';
import { authorize, transactionIdOf } from './authorization.ts';
import type { OperationRequest } from './operation-request.ts';
import type { Answer, Handler, Handlers } from './handlers.ts';
import type { ApplicationReplay, IdempotentAnswers, Repeating, TokenReplay } from './idempotency.ts';
import type { ReadModelProgress, ReadModelWatch, Revocations } from './progress.ts';
import {
  isShown,
  requireNothingLost,
  requireReadModels,
  waitForGivenPosition,
  waitForOwnWrite,
} from './read-models.ts';
import { asRightsAreNow, type Made, type PresentCaller } from './present-answer.ts';
import { RecordedRefusals } from './recorded-refusals.ts';
import { createRepeating, showAnew } from './repeats.ts';
import type { Space } from './space.ts';
import { throwAfterWork } from './unavailable.ts';
import { bodyOf, checkMediaType, noParameters, parseInput } from './validation.ts';
import { runCommand } from './writes.ts';

export interface ExecutorDependencies extends AdmissionDependencies {
  readonly handlers: Handlers;
  readonly progress: ReadModelProgress;
  readonly watch: ReadModelWatch;
  readonly revocations: Revocations;
  readonly storage: Space;
  readonly idempotency?: IdempotentAnswers | undefined;
  /** Needed together with `idempotency` by a process whose answers contain tokens. */
  readonly tokenReplay?: TokenReplay | undefined;
  /** Needed together with `idempotency` by a process whose answers contain applications. */
  readonly applicationReplay?: ApplicationReplay | undefined;
  /** Clears the cache of callers: a key, a rule, a session or a tenant may have changed. */
  readonly forgetCallers?: (() => void) | undefined;
}

export interface Outcome {
  readonly answer: Answer;
  /** Whether the read models show the write. */
  readonly isVisible: boolean;
}

export interface Executor {
  /** @throws DomainError, and any error of the store and the database */
  execute(id: OperationId, request: OperationRequest): Promise<Outcome>;
}

/**
 * Runs an operation for every entrance: credential → principal → authorise → validate → idempotency → handle → own writes → record of
 * refusals. The operations table says what each operation needs.
 */
export function createExecutor(dependencies: ExecutorDependencies): Executor {
  return {
    execute(id, request) {
      const operation: Operation = operations[id];
      const refusals = request.refusals ?? (runsCode(operation) ? new RecordedRefusals() : undefined);
      const call = { id, operation, request, refusals };
      const work = () => execute(call, dependencies);
      return operation.service === 'command' ? runCommand(work) : work();
    },
  };
}

/** Refusals of the code are those of its request, too. */
const runsCode = ({ permission }: Operation): boolean => permission === 'token:use';

async function execute(call: Call, dependencies: ExecutorDependencies): Promise<Outcome> {
  const { progress } = dependencies;
  const { operation } = call;
  const isQuery = operation.service === 'query';
  // An append is refused for the same reason. Here nothing has been stored for the request yet: no key, no idempotency key.
  if (!isQuery) dependencies.storage.requireSpace();
  await requireReadModels(progress);
  const { losses } = progress;
  // Callers are authenticated from a read model, for commands too.
  const atMs = performance.now();
  const principal = await authenticate(call, dependencies).finally(() =>
    requireNothingLost(progress, losses),
  );
  const work = async (): Promise<Outcome> => {
    call.request.requirePage?.();
    authorize(operation, principal);
    await dependencies.watch.requireMoving(operation.answersFrom ?? []);
    const made = await answerOf(call, { principal, atMs }, dependencies);
    const isVisible = await waitForOwnWrite(dependencies, call, principal, made.answer);
    const deciding = asRightsAreNow(made, callerOf(call, dependencies));
    // An answer with a position is that of a write that is done.
    const answer = await (made.answer.position === undefined ? deciding : deciding.catch(throwAfterWork));
    if (isQuery) requireNothingLost(progress, losses);
    return { answer, isVisible };
  };
  return workFor(call, { principal, atMs }, dependencies, work).catch((error: unknown) => {
    // A missing row may only be late: 404 is certain only when no connection to the read models was lost meanwhile.
    if (isQuery && error instanceof NotFoundError) requireNothingLost(progress, losses);
    throw error;
  });
}

const callerOf = (call: Call, dependencies: ExecutorDependencies): PresentCaller => ({
  principalNow: () => principalNow(call, dependencies),
  contextOf: (admitted) => contextOf(call, admitted, dependencies),
});

const repeatableMethods: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

async function answerOf(call: Call, first: Admitted, dependencies: ExecutorDependencies): Promise<Made> {
  const { id, operation, request } = call;
  const { handlers, progress } = dependencies;
  const handler = handlers[id] as Handler<OperationId> | undefined;
  if (!handler) throw new UnavailableError('The operation is not available here.');
  const input = await inputOf(operation, request);
  await waitForGivenPosition(progress, call);
  const admitted = await stillAdmitted(call, first, dependencies);
  const { principal } = admitted;
  if (operation.service === 'query') {
    const decideAnew = (by: Principal) =>
      handler(input, contextOf(call, { ...admitted, principal: by }, dependencies));
    return { answer: await decideAnew(principal), admitted, decideAnew };
  }
  const transactionId = transactionIdOf(operation, principal, request.transactionId);
  const run = (idempotencyScope = request.idempotencyScope, isTakenOver?: boolean): Promise<Answer> =>
    handler(input, contextOf(call, admitted, dependencies, { transactionId, idempotencyScope, isTakenOver }));
  const isVisible = (answer: Answer) => isShown(progress, answer);
  const repeatingOf = (by: Principal) =>
    createRepeating(
      { ...dependencies, isVisible },
      operation,
      input.params,
      contextOf(call, { ...admitted, principal: by }, dependencies, { transactionId }),
    );
  const answer = await onceByKey(
    call,
    input,
    { principal, run, repeating: () => repeatingOf(principal) },
    dependencies,
  );
  const { decided } = answer;
  if (decided) {
    const laterOf = (by: Principal) =>
      contextOf(call, { ...admitted, principal: by }, dependencies, { transactionId });
    return {
      answer,
      admitted: { atMs: decided.atMs, principal: decided.principal },
      decideAnew: async (by, before) => ({ ...before, ...(await before.decided?.again(laterOf(by))) }),
      isOvertaken: async (shown, by) => (await shown.decided?.isOvertaken(laterOf(by), shown)) ?? false,
    };
  }
  const showsTokens = operation.entity === 'token' && answer.tokens !== undefined;
  return {
    answer,
    admitted,
    decideAnew: showsTokens ? (by) => showAnew(repeatingOf(by), answer) : undefined,
    isOvertaken: (shown, by) => repeatingOf(by).isOvertaken(shown),
  };
}

/** Runs a command. A repeat under an idempotency key gets the stored answer (rules.md §2). */
async function onceByKey(
  { operation, request }: Call,
  input: AnyInput,
  { principal, run, repeating }: Command,
  { idempotency }: ExecutorDependencies,
): Promise<Answer> {
  const { idempotencyKey: key } = request;
  const { method, setsCookie } = operation;
  // The parsed path, so that another spelling of it (a trailing slash, an escape) is the same request.
  const path = JSON.stringify([operation.path, input.params ?? null]);
  // The secret of a cookie is not stored, so an answer with a cookie cannot be repeated: each sign-in makes another session.
  const isOnce =
    key !== undefined && idempotency !== undefined && repeatableMethods.has(method) && setsCookie !== true;
  const answer = await (isOnce ? idempotency.run({ principal, method, path, key }, run, repeating()) : run());
  const { isRepeat = false, status = 200 } = answer;
  return isRepeat && status < 400 ? showAnew(repeating(), answer) : answer;
}

interface Command {
  readonly principal: Principal;
  readonly run: (scope?: readonly string[], isTakenOver?: boolean) => Promise<Answer>;
  /** Called for a repeat only, so that other requests need no second context. */
  readonly repeating: () => Repeating;
}

function requireRaw({ readRaw }: OperationRequest): Promise<RawRequest> {
  if (!readRaw) throw new UnavailableError('The operation is not available here.');
  return readRaw();
}

type AnyInput = Parameters<Handler<OperationId>>[0];

async function inputOf(operation: Operation, request: OperationRequest): Promise<AnyInput> {
  checkMediaType(operation, request.mediaType);
  const params = parseInput(operation.params, request.params, { root: 'path' });
  if (operation.isRaw) return { params, body: await requireRaw(request) } as AnyInput;
  const isLenient = request.isLenient ?? false;
  const query = parseInput(operation.query ?? noParameters, request.query, { root: 'query', isLenient });
  const body = readsBody(operation)
    ? parseInput(bodyOf(operation), (await request.readBody()).expose(), { root: 'body', isLenient })
    : undefined;
  return { params, query, body } as AnyInput;
}

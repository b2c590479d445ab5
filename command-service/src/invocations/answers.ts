import {
  type DataOf,
  DomainError,
  onlyDecides,
  invocationPlace,
  mayHoldUnnamedTokens,
  outcomeContentOf,
  reactorProblemCode,
  sealedOutcome,
  type FieldErrors,
  type Json,
  type OutcomeContent,
  type ReactorProblem,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import {
  DataDependentError,
  type Answer,
  type AnswerToken,
  type RequestContext,
} from '@token-vault/operations';
import { outputTokensOf } from '../tokens/outputs.ts';
import type { DecisionOnSeen } from '../tokens/seen.ts';
import type { RefuseOwner } from './code-owner.ts';
import type { OutcomeEvent } from './state.ts';
import type { TokenUse } from './token-use.ts';

/** The error that the caller gets for a failed run, in the common error format (rules.md §1 and §10). */
const failure = (
  { status, reason }: Pick<DataOf<'ReactorFailed'>, 'status' | 'reason'>,
  detail: string,
  errors: FieldErrors,
): DomainError => new DomainError(reactorProblemCode(status, reason), detail, { errors });

/**
 * The invocation that the caller asked for. Its ids do not come from the event, because the event could belong to
 * another invocation.
 */
interface Asked {
  readonly tenantId: string;
  readonly invocationId: string;
  readonly reactorId: string;
  readonly reactorRevision: number;
}

/**
 * The result or the problem of a run, and the tokens that its code was shown.
 * @throws DomainError when it is no longer kept; AlteredRecordError
 */
async function openOutcome(
  keyRing: Pick<KeyRing, 'open'>,
  { tenantId, invocationId }: Pick<Asked, 'tenantId' | 'invocationId'>,
  event: OutcomeEvent,
): Promise<OutcomeContent> {
  try {
    const { sealed, field } = sealedOutcome(event);
    const place = invocationPlace(tenantId, invocationId, field);
    return outcomeContentOf(event, (await keyRing.open<Json>(place, sealed)).expose());
  } catch (error) {
    if (error instanceof KeyDestroyedError)
      throw new DomainError('conflict', 'The reactor has run; its result is no longer kept.');
    throw error;
  }
}

/**
 * The tokens of the output: a repeat shows each in its present state. Code that asked for the run is decided by how it was shown them. Of a
 * duplicate the answer has some fields, which the right to read it decides.
 */
const entriesOfOutput = (content: OutcomeContent, tenantId: string): readonly AnswerToken[] =>
  outputTokensOf(content, tenantId).flatMap(({ id, createdAt, at, isWhole, shown }): AnswerToken[] => {
    if (isWhole) return [{ id, createdAt, at, by: 'output', shown }];
    return shown ? [{ id, createdAt, by: 'seen', shown }] : [];
  });

/** The entry by which the run itself decides: whether the reactor is there, and has kept its application. */
const runOf = ({ reactorId, reactorRevision, since }: Asked & Pick<Ended, 'since'>): AnswerToken => ({
  id: reactorId,
  by: 'ran',
  shown: {
    permission: 'token:use',
    transform: 'redact',
    ran: reactorRevision,
    ranSince: since.toISOString(),
  },
});

/** The tokens that the answer of a run may contain, and the run. */
function tokensOf(
  event: OutcomeEvent,
  asked: Asked & Pick<Ended, 'since'>,
  content: OutcomeContent,
  usedTokenIds: readonly string[],
) {
  const { seen, used = [], isSeenComplete, cvcEndsAt } = content;
  const { occurred_at: asOf } = event.metadata;
  const madeAt = new Map(used.map(({ id, createdAt }) => [id, createdAt]));
  const tokens: AnswerToken[] = [
    ...usedTokenIds.map((id) => ({ id, createdAt: madeAt.get(id), by: 'use' as const, asOf, cvcEndsAt })),
    ...seen.map(({ id, createdAt, shown }) =>
      onlyDecides({ shown })
        ? { id, by: 'ran' as const, shown }
        : { id, createdAt, by: 'seen' as const, asOf, cvcEndsAt, shown },
    ),
    ...entriesOfOutput(content, asked.tenantId),
    runOf(asked),
  ];
  const endsAtMs = cvcEndsAt === undefined ? Infinity : Date.parse(cvcEndsAt);
  return { tokens, endsAtMs, isUnrepeatable: !isSeenComplete };
}

/**
 * Answers the invoker from the outcome event, after the rights on its tokens were decided. @throws DomainError when the
 * run failed
 */
function answerFrom(
  asked: Asked & Pick<Ended, 'since'>,
  event: OutcomeEvent,
  content: OutcomeContent,
  usedTokenIds: readonly string[],
): Answer {
  const { position } = event;
  if (event.type === 'ReactorSucceeded') {
    return { body: content.value, position, ...tokensOf(event, asked, content, usedTokenIds) };
  }
  const { status } = event.data;
  const { detail, errors, custom } = content.value as ReactorProblem;
  const tokens = tokensOf(event, asked, content, usedTokenIds);
  if (custom === undefined) {
    const madeOf = { ...tokens, isUnrepeatable: mayHoldUnnamedTokens(content) };
    throw new DataDependentError(failure(event.data, detail, errors), madeOf);
  }
  return { status, headers: custom.headers, body: custom.body, position, ...tokens };
}

export interface AnswerDependencies {
  readonly store: Pick<EventStore, 'consistently'>;
  readonly keyRing: Pick<KeyRing, 'open'>;
  readonly tokenUse: Pick<TokenUse, 'decisionOn'>;
  readonly decisionOnSeen: DecisionOnSeen;
  readonly refuseOwner: RefuseOwner;
}

/** An outcome, and the tokens of the arguments of its run. */
export interface Ended {
  readonly asked: Asked;
  readonly outcome: OutcomeEvent;
  readonly usedTokenIds: readonly string[];
  /** The moment of the request that began the run. */
  readonly since: Date;
  /** Whether this request began the run: what the run has recorded is not recorded again. A repeat is an access of its own. */
  readonly isFirst: boolean;
}

/**
 * The answer to the invoker, if it may be shown now. The code ran for seconds, and the invoker or the application of
 * the reactor may have lost a right meanwhile. The result or the error may hold data of the tokens, so the rights are
 * decided again, as for a delivery.
 * @throws UnauthenticatedError, ForbiddenError; DomainError when the run failed
 */
export async function answerNow(
  dependencies: AnswerDependencies,
  ended: Ended,
  context: RequestContext,
): Promise<Answer> {
  const opening = openOutcome(dependencies.keyRing, ended.asked, ended.outcome);
  const { refused = [] } = await opening.catch(() => ({ refused: [] }));
  if (ended.isFirst) context.refusals?.note(refused);
  // The tokens of the arguments were decided when the run began. A moment later, that decision still holds.
  const isUseDecided = (await context.renewed()) === undefined;
  return decidedAnswer(dependencies, ended, { context, isUseDecided, opening });
}

interface Deciding {
  readonly context: RequestContext;
  readonly isUseDecided: boolean;
  readonly opening?: Promise<OutcomeContent>;
}

/** @throws as `answerNow` */
async function decidedAnswer(
  dependencies: AnswerDependencies,
  ended: Ended,
  {
    context,
    isUseDecided,
    opening = openOutcome(dependencies.keyRing, ended.asked, ended.outcome),
  }: Deciding,
): Promise<Answer> {
  const { store, keyRing, tokenUse, decisionOnSeen, refuseOwner } = dependencies;
  const { asked, outcome, usedTokenIds, since } = ended;
  const owner = { reactorId: asked.reactorId, revision: asked.reactorRevision };
  opening.catch(() => undefined);
  const { present, refusal } = await store.consistently(async () => {
    const { seen = [] } = await opening.catch(() => ({ seen: [] }));
    const decideUse =
      isUseDecided && seen.length === 0 ? undefined : await tokenUse.decisionOn(usedTokenIds, since, context);
    // The readings were recorded during the run. `record` is for showings after the first.
    const decideSeen = await decisionOnSeen(seen, since, context);
    const gone = await refuseOwner(asked.tenantId, owner, since);
    // The rights are found last: reading the tokens before took time.
    const present = (await context.renewed()) ?? context;
    const { refusal } = await decideSeen();
    return { present, refusal: decideUse?.(present) ?? gone ?? refusal };
  });
  if (refusal) throw refusal;
  let content = await opening;
  // The result or the error may hold a cvc that has ended since it was opened: then it does not open again.
  if (content.cvcEndsAt !== undefined) content = await openOutcome(keyRing, asked, outcome);
  const answer = answerFrom({ ...asked, since }, outcome, content, usedTokenIds);
  const again = (later: RequestContext) =>
    decidedAnswer(dependencies, ended, { context: later, isUseDecided: false });
  const { principal, admittedAtMs: atMs } = present;
  const decided = { atMs, principal, again, isOvertaken: async () => true };
  return { ...answer, decided };
}

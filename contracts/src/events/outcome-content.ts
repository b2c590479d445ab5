import type { JsonInput } from '../json.ts';
import type { Actor } from '../metadata.ts';
import type { TokenPermission, Transform } from '../permissions.ts';
import type { TokenIdentity } from '../token-identity.ts';
import { AlteredRecordError } from '../problems.ts';
import type { InvocationField, ReactorFailed, ReactorSucceeded } from './invocation.ts';
import type { EventOf } from './registry.ts';

/** A token that was not made, because a token with the same data existed. */
export type AskedToken = { readonly id: string; readonly containers: readonly string[] };

/** The right by which reactor code was shown a token by `req.svc`, and how the token was shown. */
export type TokenShowing = {
  /** The application of the reactor whose code was shown the token. */
  readonly applicationId: string;
  readonly permission: TokenPermission;
  readonly transform: Transform;
  /** The answer to the code contains no data of the token, but was computed from the data. */
  readonly isTold?: true | undefined;
  /**
   * Set when the id names a reactor: the code asked for a run of it, at this revision, and was given the result. The code of the reactor and the
   * right to ask for it decide about that result too.
   */
  readonly ran?: number | undefined;
  /** When the code asked for that run, RFC 3339. Unset in what an older release stored. */
  readonly ranSince?: string | undefined;
  /**
   * Set when an expression of the code named the id: the right of this caller of the run to use the token decides. The entry of the application
   * says whether the code had data of such a token.
   */
  readonly caller?: Pick<Actor, 'kind' | 'id'> | undefined;
  /** The token of a create request that deduplication answered with this token. The right to make the requested token decides. */
  readonly asked?: AskedToken | undefined;
};

/** A token whose data the outcome of a run may contain. */
export type SeenToken = {
  readonly id: string;
  /** Distinguishes the token from another one that had the id (`TokenIdentity`). Unset in an entry of no token, and where an older release did not note it. */
  readonly createdAt?: string | undefined;
  /** Unset when no right was needed: the token was made from the output of the run. */
  readonly shown?: TokenShowing | undefined;
};

/** A token that an expression of the code named, used by the right of a caller of the run. */
export const usedBy = (
  { actor: caller, applicationId }: { readonly actor: Actor; readonly applicationId: string },
  id: string,
): SeenToken => ({
  id,
  shown: { applicationId, permission: 'token:use', transform: 'reveal', caller },
});

/** The entry is not of a token, but of a run that the code asked for. */
export const isRun = ({ shown }: Pick<SeenToken, 'shown'>): boolean => shown?.ran !== undefined;

/** The entry decides, but the code had no data by it. */
export const onlyDecides = (token: Pick<SeenToken, 'shown'>): boolean =>
  isRun(token) || token.shown?.caller !== undefined;

/** Whether the code made the token from data that it had. False for a duplicate, which existed before. */
export const isMadeByCode = ({ shown }: SeenToken): boolean =>
  shown === undefined || (shown.permission === 'token:create' && shown.isTold !== true);

/**
 * The sealed content of an outcome. The tokens are sealed together with the result, because they decide which callers get
 * the result: an attacker who can write the log cannot remove one (ADR 20). It and its parts are type aliases: the
 * compiler accepts these as JSON, which it does not do for interfaces.
 */
export type OutcomeContent = {
  readonly type: 'ReactorSucceeded' | 'ReactorFailed';
  /** The body of the answer, or the problem (`ReactorProblem`). */
  readonly value: JsonInput;
  readonly seen: readonly SeenToken[];
  /** The tokens of the arguments that were opened. Unset in what an older release stored, and when it is unknown. */
  readonly used?: readonly TokenIdentity[] | undefined;
  /** False when the tokens are unknown, or when the code made more than `maxSeenTokens`. */
  readonly isSeenComplete: boolean;
  /** RFC 3339. When the first cvc that was shown to the code expires. Unset when no cvc was shown. */
  readonly cvcEndsAt?: string | undefined;
  /** Names of refusals of its steps that are in the log (`RecordedRefusals`): the first answer of the run records none of these again. */
  readonly refused?: readonly string[] | undefined;
};

/**
 * Whether the outcome may hold data of tokens that it does not name. A failure that names no tokens was made by the vault, and contains no
 * data.
 */
export const mayHoldUnnamedTokens = ({ type, seen, isSeenComplete }: OutcomeContent): boolean =>
  !isSeenComplete && (type === 'ReactorSucceeded' || seen.length > 0);

type Outcome = Pick<EventOf<typeof ReactorSucceeded | typeof ReactorFailed>, 'type' | 'data'>;

/** The sealed value of an outcome, and the field (AAD) under which it was sealed. */
export const sealedOutcome = ({
  data,
}: Outcome): { readonly sealed: string; readonly field: InvocationField } => ({
  sealed: 'result' in data ? data.result : data.problem,
  field: data.sealed_with_tokens === true ? 'outcome_with_tokens' : 'outcome',
});

/**
 * The content of an outcome from its opened value. An older release sealed the value alone; then the tokens are
 * unknown.
 * @throws AlteredRecordError when the type of the event is not the sealed type
 */
export function outcomeContentOf({ type, data }: Outcome, opened: JsonInput): OutcomeContent {
  if (data.sealed_with_tokens !== true)
    return { type, value: opened, seen: [], isSeenComplete: false, cvcEndsAt: data.cvc_ends_at };
  const content = opened as OutcomeContent;
  if (content.type !== type) throw new AlteredRecordError('invocation');
  return content;
}

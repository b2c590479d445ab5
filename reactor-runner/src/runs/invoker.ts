import { can, seesEverything, type Principal } from '@token-vault/access';
import {
  DomainError,
  firstCvcEnd,
  ForbiddenError,
  mayHoldUnnamedTokens,
  refusalOfEndedCvc,
  usedBy,
  type Json,
  type OutcomeContent,
  type ParentRun,
  type SeenToken,
  type VaultEvent,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { DetokenizedToken } from '@token-vault/expressions';
import { deniedEvent, type Clock, type RequestContext } from '@token-vault/operations';
import type { Invocation } from './invocation.ts';
import { contextFor } from './caller-context.ts';
import { askedOf, nothingSeen, parentsOf, refusalOfRun, runOf } from './nesting.ts';
import type {
  DecisionOnOutputs,
  DecisionOnSeen,
  DecisionOnUse,
  FindInvoker,
  Guess,
  GuessAs,
  Invoking,
  OpenedTokens,
  OpenTokens,
  PresentResult,
  RefuseOwner,
  UseNamed,
} from './ports.ts';

/** The refusal when the invoker no longer exists, or may use no token at all. */
function refusalOfCaller(invoker: Principal | undefined): ForbiddenError | undefined {
  if (invoker && can(invoker, 'token:use')) return undefined;
  const detail = invoker ? 'lacks the permission token:use' : 'does not exist any more';
  return new ForbiddenError(`The caller ${detail}.`);
}

const shownOnce = (): ForbiddenError =>
  new ForbiddenError('The code was shown more tokens than are named, so its result is shown once only.');

/** The record of a refusal. It names the reactor when the refusal names no entity. */
const denied = (
  refusal: ForbiddenError,
  { invoked: { reactor_id: id } }: Invocation,
  context: RequestContext,
  permission: 'token:use' | 'token:read' = 'token:use',
): VaultEvent => deniedEvent(context, refusal, { entity: { type: 'reactor', id }, permission });

/** @throws DomainError in place of a KeyDestroyedError */
export function throwTooOld(error: unknown): never {
  if (error instanceof KeyDestroyedError)
    throw new DomainError('conflict', 'The arguments are no longer kept: the invocation is too old.');
  throw error;
}

/** `made`: the arguments with the data of the tokens. */
export type OpenedForInvoker = OpenedTokens<Json> & Invoking;

/** Puts the data of the tokens into the arguments. */
type FillArguments = (tokens: ReadonlyMap<string, DetokenizedToken>, invoking: Invoking) => Promise<Json>;

/**
 * Opens the tokens of a run by the present rights of its invoker, which may be fewer than at the request (rules.md
 * §6). A refusal is recorded with the claim, as a use is.
 */
export async function openForInvoker(
  invocation: Invocation,
  invoker: Principal | undefined,
  rights: DeliveryRights & { readonly openTokens: OpenTokens; readonly keyRing: Pick<KeyRing, 'open'> },
  fill: FillArguments,
): Promise<OpenedForInvoker> {
  const run = runOf(invocation, nothingSeen);
  const context = contextFor(invocation, run, invoker, rights.clock);
  const parents = await parentsOf(rights.keyRing, invocation).catch(throwTooOld);
  const refusal = refusalOfCaller(invoker) ?? (await decideRuns(invocation, parents, rights)).refusal;
  if (!refusal) {
    const make = (tokens: ReadonlyMap<string, DetokenizedToken>) => fill(tokens, { context, parents });
    const opened = await rights.openTokens(invocation.invoked.token_ids, context, make);
    // The arguments may hold any cvc that the code of these runs was given.
    const cvcEndsAt = firstCvcEnd([opened, ...parents].map((each) => each.cvcEndsAt));
    return { ...opened, cvcEndsAt, context, parents };
  }
  const made = Promise.reject(refusal);
  made.catch(() => undefined);
  return { use: [denied(refusal, invocation, context)], madeAt: new Map(), made, context, parents: [] };
}

export interface DeliveryRights {
  readonly store: EventStore;
  readonly clock: Clock;
  readonly findInvoker: FindInvoker;
  readonly decisionOnUse: DecisionOnUse;
  readonly refuseOwner: RefuseOwner;
  readonly decisionOnSeen: DecisionOnSeen;
}

export interface ShowingRights extends DeliveryRights {
  readonly keyRing: Pick<KeyRing, 'open'>;
  readonly decisionOnOutputs: DecisionOnOutputs;
}

export interface NamedRights extends Pick<DeliveryRights, 'clock' | 'findInvoker'> {
  readonly useNamed: UseNamed;
  readonly guess: Guess;
}

export interface RefusedDelivery {
  readonly refusal: ForbiddenError;
  readonly record: VaultEvent;
}

/**
 * A run at this moment: in the name of its invoker, and the refusal when the invoker may not use the tokens of the
 * arguments, when the code is gone, or when a cvc that it was given has ended. Reads the tokens, which may take seconds, and gives the function
 * that then finds the rights, and decides.
 */
async function decisionOnStanding(
  invocation: Invocation,
  run: ParentRun,
  { clock, findInvoker, decisionOnUse, refuseOwner }: Omit<DeliveryRights, 'decisionOnSeen'>,
) {
  const { tenantId } = invocation;
  const since = new Date(run.since);
  const unknown = contextFor(invocation, run, undefined, clock);
  const [decideUse, gone] = await Promise.all([
    decisionOnUse(run.tokenIds, since, unknown),
    refuseOwner(tenantId, run.owner, since),
  ]);
  return async () => {
    const invoker = await findInvoker(tenantId, run.actor, askedOf(run));
    const context = contextFor(invocation, run, invoker, clock);
    const refusal =
      refusalOfCaller(invoker) ?? decideUse(context) ?? gone ?? refusalOfEndedCvc(run.cvcEndsAt, clock.now());
    return { context, refusal };
  };
}

/**
 * Reads the tokens of all these runs. Gives the function that then decides about each of them: the tokens of one run may take long, and the caller
 * or the application of another may lose its rights meanwhile. `record` records the readings.
 */
async function decisionOnRuns(invocation: Invocation, runs: readonly ParentRun[], rights: DeliveryRights) {
  const read = await Promise.all(
    runs.map(async (run) => {
      const unknown = contextFor(invocation, run, undefined, rights.clock);
      const [decideSeen, decideStanding] = await Promise.all([
        rights.decisionOnSeen(run.seen, new Date(run.since), unknown),
        decisionOnStanding(invocation, run, rights),
      ]);
      return { run, decideSeen, decideStanding };
    }),
  );
  return async () => {
    const decided = await Promise.all(
      read.map(async ({ run, decideSeen, decideStanding }) => {
        const [seen, standing] = await Promise.all([decideSeen(), decideStanding()]);
        const refusal = standing.refusal ?? seen.refusal;
        return { refusal: refusal && refusalOfRun(run, refusal), record: () => seen.record() };
      }),
    );
    return {
      refusal: decided.find(({ refusal }) => refusal !== undefined)?.refusal,
      record: async () => void (await Promise.all(decided.map((each) => each.record()))),
    };
  };
}

/** Decides about all these runs at one moment. */
const decideRuns = (invocation: Invocation, runs: readonly ParentRun[], rights: DeliveryRights) =>
  rights.store.consistently(async (beforeRights) => {
    const decide = await decisionOnRuns(invocation, runs, rights);
    beforeRights();
    return decide();
  });

/**
 * Decides whether code that is running may go on with the data that it has, as a delivery of its result is decided.
 * @param runs the run, and the runs that it is nested in
 * @throws ForbiddenError
 */
export async function requireActingOf(
  invocation: Invocation,
  runs: readonly ParentRun[],
  rights: DeliveryRights,
): Promise<void> {
  const { refusal } = await decideRuns(invocation, runs, rights);
  if (refusal) throw refusal;
}

/** Contexts in the names of the callers of these runs. @throws ForbiddenError when one may use no token at all */
function callersOf(
  invocation: Invocation,
  runs: readonly ParentRun[],
  { clock, findInvoker }: Pick<NamedRights, 'clock' | 'findInvoker'>,
): Promise<readonly RequestContext[]> {
  const contexts = runs.map(async (run) => {
    const invoker = await findInvoker(invocation.tenantId, run.actor, askedOf(run));
    const refusal = refusalOfCaller(invoker);
    if (refusal) throw refusalOfRun(run, refusal);
    return contextFor(invocation, run, invoker, clock);
  });
  return Promise.all(contexts);
}

/**
 * Uses tokens that expressions of the code name for the callers of these runs, as tokens of arguments are. The text of an expression may have
 * come from a caller.
 * @returns the tokens as used by the rights of the callers, so that these rights decide later, too
 * @throws ForbiddenError; ValidationError when the tokens have too much data
 */
export async function useNamedOf(
  invocation: Invocation,
  runs: readonly ParentRun[],
  named: readonly string[],
  rights: NamedRights,
): Promise<readonly SeenToken[]> {
  const callers = await callersOf(invocation, runs, rights);
  await rights.useNamed(named, callers);
  return callers.flatMap(({ principal }) => named.map((id) => usedBy(principal, id)));
}

/** Misses count by application. So one caller of each guesses, and one that does not see every token where there is one. */
function guessersOf(callers: readonly RequestContext[]): readonly RequestContext[] {
  const guessers = new Map<string, RequestContext>();
  for (const caller of callers) {
    const { applicationId } = caller.principal;
    const other = guessers.get(applicationId);
    if (!other || seesEverything(other.principal, 'token:read')) guessers.set(applicationId, caller);
  }
  return [...guessers.values()];
}

/** Evaluates expressions for the callers of these runs, and for `own`: errors are misses of each of them. */
export const guessOf =
  (
    invocation: Invocation,
    runs: readonly ParentRun[],
    rights: Pick<NamedRights, 'clock' | 'findInvoker' | 'guess'>,
    own: readonly RequestContext[] = [],
  ): GuessAs =>
  async (isMiss, work) => {
    const callers = [...own, ...(await callersOf(invocation, runs, rights))];
    return guessersOf(callers).reduce<() => ReturnType<typeof work>>(
      (inner, caller) => () => rights.guess(caller, isMiss, inner),
      work,
    )();
  };

export interface DeliveryAttempt {
  /** Whether there was an attempt before. */
  readonly isAgain: boolean;
  /** Whether this token of the output, by its number in it, is sent by its identity alone. */
  readonly isWithheld: (index: number) => boolean;
}

type DecidedDelivery =
  | { readonly refused: RefusedDelivery }
  | {
      readonly refused: undefined;
      /** `record` records all readings. */
      readonly result: PresentResult;
    };

/**
 * A delivery shows the result, maybe hours later. So the rights are decided again, as for the repeat of a synchronous
 * run (rules.md §2): the invoker must exist and be allowed to use the tokens of the arguments, and the applications of
 * reactors must be allowed to see the tokens that their code was shown. The same holds for the runs that this one is nested in. When a token
 * has ended before the delivery, its last state decides. The tokens of the output are shown by the invoker's rights to read them.
 * A result that may hold tokens which are not named cannot be decided, so it is shown once, as the answer of a synchronous run is.
 * @param open opens the outcome; called when the invoker is allowed
 */
export async function decideDelivery(
  invocation: Invocation,
  rights: ShowingRights,
  open: () => Promise<OutcomeContent>,
  { isAgain, isWithheld }: DeliveryAttempt,
): Promise<DecidedDelivery> {
  const run = runOf(invocation, nothingSeen);
  const decideFirst = await decisionOnStanding(invocation, run, rights);
  const refusedBy = await decideFirst();
  const refused = (refusal: ForbiddenError, permission?: 'token:read') => ({
    refused: { refusal, record: denied(refusal, invocation, refusedBy.context, permission) },
  });
  if (refusedBy.refusal) return refused(refusedBy.refusal);
  const parents = await parentsOf(rights.keyRing, invocation);
  const opened = await open();
  const cvcEndsAt = opened.cvcEndsAt === undefined ? undefined : new Date(opened.cvcEndsAt);
  const ended = runOf(invocation, { ...nothingSeen, cvcEndsAt });
  const [decided, ofParents, standing, showOutputs] = await rights.store.consistently(
    async (beforeRights) => {
      const decideSeen = await rights.decisionOnSeen(opened.seen, new Date(run.since), refusedBy.context);
      const decideParents = await decisionOnRuns(invocation, parents, rights);
      const decideOutputs = await rights.decisionOnOutputs(opened, refusedBy.context);
      const decideAgain = await decisionOnStanding(invocation, ended, rights);
      // The rights are found last, those of the invoker a second time: reading the tokens may take long. The result may hold a cvc that ends meanwhile.
      beforeRights();
      const decisions = await Promise.all([decideSeen(), decideParents(), decideAgain()]);
      return [...decisions, decideOutputs] as const;
    },
  );
  if (standing.refusal) return refused(standing.refusal);
  if (ofParents.refusal) return refused(ofParents.refusal);
  const mayHoldOthers = mayHoldUnnamedTokens(opened) || parents.some((each) => !each.isSeenComplete);
  if (isAgain && mayHoldOthers) return refused(shownOnce(), 'token:read');
  if (decided.refusal) return refused(decided.refusal, 'token:read');
  const result = showOutputs(standing.context, isWithheld);
  const record = async () => {
    for (const each of [ofParents, decided, result]) await each.record();
  };
  return { refused: undefined, result: { ...result, record } };
}

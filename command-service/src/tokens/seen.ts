import {
  can,
  decideTokenAccess,
  isDataSearchable,
  lesserOf,
  refusalText,
  shownBy,
  type AccessibleToken,
  type Principal,
  type TokenAccess,
} from '@token-vault/access';
import {
  entityTypeOfToken,
  ForbiddenError,
  isRun,
  TokensRead,
  type Actor,
  type DataOf,
  type LackingRight,
  type SeenToken,
  type TokenShowing,
  type Transform,
} from '@token-vault/contracts';
import {
  createRequestContext,
  withReason,
  type AuditTrail,
  type RequestContext,
} from '@token-vault/operations';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { createOwnerDecision } from '../invocations/code-owner.ts';
import { createTokensSinceFinder, type DecidingToken, type TokenFinderDependencies } from './find.ts';
import { shownTo, type Shown } from './shown.ts';

/**
 * An application or a session with its present rights. Undefined when it has ended. @throws UnavailableError when its
 * rights cannot be read
 */
export type FindActor = (tenantId: string, actor: Actor) => Promise<Principal | undefined>;

export interface SeenTokensDependencies extends TokenFinderDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
  readonly findActor: FindActor;
}

/** How tokens that reactor code was shown may be shown now, as part of the outcome of the run. */
interface SeenDecision {
  /** About the first token that may not be shown now as the code was shown it, to the application of its reactor or a caller of the run. */
  readonly refusal: ForbiddenError | undefined;
  /** Records the reading by each application and caller. Must be durable before the outcome is shown once more. */
  record(): Promise<void>;
}

/**
 * Decides about the outcome of a run by the tokens that its code was shown since the run began: in the answer, in a
 * repeat of the request and in each delivery (rules.md §2; ADR 16). A token that is gone is decided by its last state.
 * Reads the tokens, which may take seconds. Gives the function that then finds the rights, and decides: call it when all else was read.
 */
export type DecisionOnSeen = (
  tokens: readonly SeenToken[],
  since: Date,
  context: RequestContext,
) => Promise<() => Promise<SeenDecision>>;

interface Showing {
  readonly details: DecidingToken;
  readonly shown: TokenShowing;
}

/** A token, and how the caller itself was shown it. */
interface OwnShowing {
  readonly details: Pick<DecidingToken, 'id' | 'content'>;
  readonly shown: Omit<TokenShowing, 'applicationId'>;
}

type ShownToCode = SeenToken & { readonly shown: TokenShowing };
const isShownToCode = (token: SeenToken): token is ShownToCode => token.shown !== undefined;

/** So many tokens are looked for at once: the others of the vault wait for the store meanwhile. */
const foundAtOnce = 32;

const mayNotAsk = 'The application of the reactor may no longer ask for a run of another reactor.';
const reduced = 'The application of the reactor may no longer see a token as its code was shown it.';
const unused = 'The caller may no longer use a token that an expression of the code names.';

/** By whose rights the token was shown. */
const actorOf = ({ caller, applicationId }: TokenShowing): Actor =>
  caller ?? { kind: 'application', id: applicationId };
const lackingOf = (shown: TokenShowing, principal: Principal | undefined): LackingRight => ({
  actor: actorOf(shown),
  authorizedBy: principal?.authorizedBy,
  permission: shown.permission,
});
const keyOf = ({ kind, id }: Actor): string => `${kind} ${id}`;

/** By `keyOf`, with their present rights. */
type Principals = ReadonlyMap<string, Principal | undefined>;

type Granted = { readonly isGranted: true } & Pick<Shown, 'transform' | 'isBreakGlass'>;
type Decision = Granted | Extract<TokenAccess, { isGranted: false }>;
const denied: Decision = { isGranted: false };

/**
 * Whether a principal may get an answer now that was made of the token's data: of an update, whose expressions read it,
 * of a search over it, or of a create that found it. What it may read of the token does not matter, since the answer
 * shows no data of it.
 */
function mayBeTold(
  principal: Principal,
  permission: TokenShowing['permission'],
  { token, transform }: { readonly token: AccessibleToken; readonly transform: Transform },
): boolean {
  if (permission === 'token:update') return transform === 'reveal';
  return permission !== 'token:search' || isDataSearchable(principal, token);
}

/** How a principal may be shown the token now, or told of it. */
export function shownNow(principal: Principal, { details, shown: before }: OwnShowing): Decision {
  const { id, content } = details;
  const token = before.asked ?? { id, containers: content.containers };
  const { permission } = before;
  const access = decideTokenAccess(principal, permission, token);
  if (!access.isGranted) return access;
  // Code and destinations get the plaintext of a token that they use, whatever transform the rule has.
  if (permission === 'token:use') return { ...access, transform: 'reveal' };
  if (before.isTold)
    return mayBeTold(principal, permission, { token, transform: access.transform }) ? access : denied;
  // The answer of an update shows data only to an application that may read it.
  const isUpdate = permission === 'token:update';
  const shown = isUpdate ? shownTo(principal, token, access.transform) : access;
  const transform = shownBy(shown.transform, content.mask !== undefined);
  return lesserOf(transform, before.transform) === before.transform ? { ...shown, isGranted: true } : denied;
}

const entityOf = ({ details: { id, type } }: Showing) => ({ type: entityTypeOfToken(type), id });

/** A reading as it is recorded. The outcome shows the token as the code was shown it. */
interface Reading {
  readonly operation: 'use' | 'read';
  readonly token: DataOf<'TokensRead'>['tokens'][number];
}

const readingOf = ({ details, shown }: Showing, { isBreakGlass }: Granted): Reading => ({
  operation: shown.permission === 'token:use' ? 'use' : 'read',
  token: {
    token_id: details.id,
    token_type: details.type,
    transform: shown.transform,
    ...(isBreakGlass ? { break_glass: true } : {}),
  },
});

function decideAll(
  showings: readonly Showing[],
  principals: Principals,
): { readonly refusal: ForbiddenError } | { readonly readings: ReadonlyMap<Principal, readonly Reading[]> } {
  const readings = new Map<Principal, Reading[]>();
  for (const showing of showings) {
    const principal = principals.get(keyOf(actorOf(showing.shown)));
    const now = principal ? shownNow(principal, showing) : denied;
    if (!principal || !now.isGranted) {
      const lost = showing.shown.caller ? unused : reduced;
      const text = now.isGranted ? lost : refusalText(now, lost);
      return { refusal: new ForbiddenError(text, entityOf(showing), lackingOf(showing.shown, principal)) };
    }
    const before = readings.get(principal) ?? [];
    before.push(readingOf(showing, now));
    readings.set(principal, before);
  }
  return { readings };
}

interface ReadRun {
  readonly run: ShownToCode;
  /** The refusal when its reactor is gone, or has lost its application. */
  readonly gone: ForbiddenError | undefined;
}

/** About the run, if its reactor is gone, or if the application of the code that asked for it may not ask any more. */
function refusalOfRun(
  { run: { id, shown }, gone }: ReadRun,
  principals: Principals,
): ForbiddenError | undefined {
  const application = principals.get(keyOf(actorOf(shown)));
  const lacking = lackingOf(shown, application);
  if (!application || !can(application, 'token:use'))
    return new ForbiddenError(mayNotAsk, { type: 'reactor', id }, lacking);
  return gone && new ForbiddenError(gone.message, gone.entity, lacking);
}

/** The records name the application or the caller as the actor, and the trace id of the request that shows the outcome. */
async function record(
  audit: AuditTrail,
  readings: ReadonlyMap<Principal, readonly Reading[]>,
  { traceId, now }: RequestContext,
): Promise<void> {
  for (const [principal, of] of readings) {
    const context = createRequestContext({ principal, traceId, now, request: 'react' });
    const events = (['use', 'read'] as const).flatMap((operation) => {
      const tokens = of.filter((each) => each.operation === operation).map(({ token }) => token);
      return tokens.length > 0 ? [context.event(TokensRead, { operation, tokens })] : [];
    });
    await audit.recordAll(context, events);
  }
}

/** The tokens that had the ids since the moment, each as it was shown to the code. */
async function findShowings(
  find: ReturnType<typeof createTokensSinceFinder>,
  tokens: readonly ShownToCode[],
  since: Date,
  context: RequestContext,
): Promise<Showing[]> {
  const known = new Map<string, Promise<readonly DecidingToken[]>>();
  const found: Showing[] = [];
  for (let from = 0; from < tokens.length; from += foundAtOnce) {
    const some = tokens.slice(from, from + foundAtOnce).map(async ({ id, shown }) => {
      const finding = known.get(id) ?? find(id, since, context);
      known.set(id, finding);
      return (await finding).map((details) => ({ details, shown }));
    });
    found.push(...(await Promise.all(some)).flat());
  }
  return found;
}

/** `DecisionOnSeen` by the present rights of applications and callers, with the reason that the caller gave for its request. */
export function createSeenTokens(dependencies: SeenTokensDependencies): DecisionOnSeen {
  const { audit, findActor } = dependencies;
  const find = createTokensSinceFinder(dependencies);
  const refuseOwner = createOwnerDecision(dependencies);

  async function principalsOf(tokens: readonly ShownToCode[], { principal }: RequestContext) {
    const actors = new Map(tokens.map(({ shown }) => [keyOf(actorOf(shown)), actorOf(shown)]));
    const found = [...actors].map(async ([key, actor]) => {
      const present = await findActor(principal.tenant.id, actor);
      return [key, present && withReason(present, principal.reason)] as const;
    });
    return new Map(await Promise.all(found));
  }

  async function readRun(run: ShownToCode, since: Date, { principal }: RequestContext): Promise<ReadRun> {
    const { ran: revision = 0, ranSince } = run.shown;
    const asked = ranSince === undefined ? since : new Date(ranSince);
    return { run, gone: await refuseOwner(principal.tenant.id, { reactorId: run.id, revision }, asked) };
  }

  return async (tokens, since, context) => {
    const shown = tokens.filter(isShownToCode);
    // Both may take long: a token has much data, or the stream of an application is long.
    const [showings, runs] = await Promise.all([
      findShowings(
        find,
        shown.filter((token) => !isRun(token)),
        since,
        context,
      ),
      Promise.all(shown.filter(isRun).map((run) => readRun(run, since, context))),
    ]);
    return async () => {
      const principals = await principalsOf(shown, context);
      const refused = (refusal: ForbiddenError) => ({ refusal, record: () => Promise.resolve() });
      const ofRun = runs.map((run) => refusalOfRun(run, principals)).find((refusal) => refusal !== undefined);
      if (ofRun) return refused(ofRun);
      const decided = decideAll(showings, principals);
      if ('refusal' in decided) return refused(decided.refusal);
      return { refusal: undefined, record: () => record(audit, decided.readings, context) };
    };
  };
}

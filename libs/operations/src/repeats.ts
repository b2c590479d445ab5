import {
  EntitiesRead,
  firstCvcEnd,
  NotFoundError,
  UnavailableError,
  type Json,
  type Operation,
  type Token,
} from '@token-vault/contracts';
import type { AuditTrail } from './audit-trail.ts';
import type { Answer, Decided, Path } from './handlers.ts';
import { namedTokens } from './idempotency.ts';
import type { ApplicationReplay, Repeating, ShownAgain, StoredToken, TokenReplay } from './idempotency.ts';
import type { FindEntity } from './refusals.ts';
import type { RequestContext } from './request-context.ts';

export interface RepeatDependencies {
  readonly audit: AuditTrail;
  readonly tokenReplay?: TokenReplay | undefined;
  readonly applicationReplay?: ApplicationReplay | undefined;
  readonly findEntity?: FindEntity | undefined;
  /** Whether the read models show the write of the first request. */
  readonly isVisible: (answer: Answer) => Promise<boolean>;
}

type Place = Record<string | number, unknown>;

/** Puts tokens back into their places in the body. The objects and arrays on the way are copied. */
function putTokens(body: unknown, places: readonly (readonly [Path, Token])[]): unknown {
  const root: Place = { body };
  for (const [path, token] of places) {
    const steps: (string | number)[] = ['body', ...path];
    const last = steps.pop() ?? 'body';
    let place = root;
    for (const step of steps) place = place[step] as Place;
    place[last] = token;
  }
  return root.body;
}

/** The id of the entity that the answer is about: made by the vault, or taken from the path of a request that succeeded. */
function entityIdOf(answer: Answer, params: unknown, context: RequestContext, operation: Operation) {
  if (operation.entity === 'tenant') return context.principal.tenant.id;
  // The path comes first: code of a reactor may put any value into its body.
  const id =
    (params as { id?: Json } | undefined)?.id ?? (answer.body as { id?: Json } | null | undefined)?.id;
  return typeof id === 'string' ? id : undefined;
}

const foundInReadModels: ReadonlySet<string> = new Set(['application', 'proxy', 'reactor']);

/** A request whose answer is shown again. */
interface Repeated {
  readonly dependencies: RepeatDependencies;
  readonly operation: Operation;
  readonly params: unknown;
}

/** When an answer is shown again, its entity must still exist. */
async function requireThere(
  { dependencies, operation }: Repeated,
  answer: Answer,
  entityId: string | undefined,
  context: RequestContext,
): Promise<void> {
  const { applicationReplay, findEntity, isVisible } = dependencies;
  const { entity } = operation;
  if (entityId === undefined) return;
  if (findEntity && foundInReadModels.has(entity)) {
    if (!(await isVisible(answer)))
      throw new UnavailableError('The read models do not show the first request yet.');
    if (!(await findEntity(context.principal.tenant.id, entity, entityId)))
      throw new NotFoundError('The content of the first answer');
  }
  if (entity === 'application') await applicationReplay?.require(entityId, context);
}

interface StoredAnswer {
  readonly answer: Answer;
  readonly tokens: readonly StoredToken[];
}

/** @param isOnRecord the answer was decided before, and is decided once more because it left late */
async function showStored(
  repeated: Repeated,
  { answer, tokens }: StoredAnswer,
  context: RequestContext,
  isOnRecord = false,
): Promise<Answer> {
  const { operation, dependencies, params } = repeated;
  if (answer.endsAtMs !== undefined && answer.endsAtMs <= context.now.getTime())
    throw new NotFoundError('The content of the first answer');
  const isOfEntity = operation.entity !== 'token' || tokens.length === 0;
  const entityId = entityIdOf(answer, params, context, operation);
  let { principal, admittedAtMs: atMs } = context;
  const present = async () => {
    const now = (await context.renewed()) ?? context;
    ({ principal, admittedAtMs: atMs } = now);
    if (isOfEntity) await requireThere(repeated, answer, entityId, now);
    return now;
  };
  let shown: readonly (ShownAgain | undefined)[] = [];
  if (tokens.length === 0) await present();
  else shown = await requireTokens(dependencies).show(tokens, context, { present, isOnRecord });
  if (isOfEntity && !isOnRecord) {
    const entity_ids = entityId === undefined ? [] : [entityId];
    const reading = { entity_type: operation.entity, operation: 'read', entity_ids } as const;
    await dependencies.audit.record(context, EntitiesRead, reading);
  }
  const places = tokens.flatMap(({ at }, index) => {
    const token = shown[index]?.token;
    return at && token ? [[at, token] as const] : [];
  });
  const isQuick = places.length === 0;
  const decided: Decided = {
    atMs,
    principal,
    again: (later) => showStored(repeated, { answer, tokens }, later, isQuick),
    async isOvertaken(later, { body }) {
      if (isQuick) return true;
      // Decided like a repeat that shows no token whole.
      const parts = tokens.map(({ at: _at, ...token }) => token);
      const paths = places.map(([at]) => at);
      return requireTokens(dependencies).consistently(async () => {
        await showStored(repeated, { answer, tokens: parts }, later, true);
        return !(await areAsShown(dependencies, body, paths, later));
      });
    },
  };
  const ends = shown.map((each) => each?.cvcEndsAt);
  const endsAtMs = Math.min(answer.endsAtMs ?? Infinity, firstEnd(ends));
  return { ...answer, body: putTokens(answer.body, places), endsAtMs, decided };
}

/** The first of these ends, in ms since the epoch; `Infinity` when there is none. */
function firstEnd(ends: readonly (string | undefined)[]): number {
  const first = firstCvcEnd(ends);
  return first === undefined ? Infinity : Date.parse(first);
}

/** When the first cvc ends that the answer may hold, in ms since the epoch. */
export const endOf = ({ endsAtMs, tokens = [] }: Answer): number =>
  endsAtMs ?? firstEnd(tokens.map(({ at, cvcEndsAt }) => (at === undefined ? undefined : cvcEndsAt)));

/** Whether the whole tokens at these places of the body have not been changed since. */
async function areAsShown(
  dependencies: RepeatDependencies,
  body: unknown,
  places: readonly Path[],
  context: RequestContext,
): Promise<boolean> {
  const at = (path: Path) =>
    path.reduce<unknown>((value, step) => (value as Place | undefined)?.[step], body) as Token | undefined;
  const shown = places.flatMap((path) => at(path) ?? []);
  return requireTokens(dependencies).areAsShown(shown, context);
}

function requireTokens({ tokenReplay }: RepeatDependencies): TokenReplay {
  if (!tokenReplay) throw new UnavailableError('Tokens of stored answers are not available here.');
  return tokenReplay;
}

/**
 * Shows an answer that was not stored yet: of a request that was cut off before its answer, or whose caller has other rights now. It is
 * decided like a stored one. @throws NotFoundError when a token of it was deleted, ForbiddenError
 */
export async function showAnew(repeating: Repeating, answer: Answer): Promise<Answer> {
  const { tokens = [], isUnrepeatable = false } = answer;
  const named = isUnrepeatable ? undefined : await namedTokens(tokens, (ids) => repeating.facts(ids));
  if (!named) throw new NotFoundError('The content of the first answer');
  return repeating.show({ ...answer, endsAtMs: undefined }, named.tokens);
}

/**
 * A repeat of a request is a separate access. The caller is authorised for the operation earlier, and here for the content of the answer.
 * The access is recorded before the answer leaves (rules.md §2).
 */
export function createRepeating(
  dependencies: RepeatDependencies,
  operation: Operation,
  params: unknown,
  context: RequestContext,
): Repeating {
  return {
    facts: (ids) => requireTokens(dependencies).facts(ids, context),
    async isOvertaken({ body, tokens = [] }) {
      // The caller has sent the data of a token that it made itself.
      const places = tokens.flatMap(({ at, by }) => (at && by !== 'create' ? [at] : []));
      if (places.length === 0) return false;
      return requireTokens(dependencies).consistently(
        async () => !(await areAsShown(dependencies, body, places, context)),
      );
    },
    show: (answer, tokens) => showStored({ dependencies, operation, params }, { answer, tokens }, context),
  };
}

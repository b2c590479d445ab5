import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  createTokenBody,
  DomainError,
  ForbiddenError,
  itemErrorOf,
  type BatchAnswer,
  type CreateTokenBody,
  type DeleteTokensAnswer,
  type Json,
  type Permission,
  type Secret,
} from '@token-vault/contracts';
import { AppendGroup, comparePositions, type GroupMember, type Position } from '@token-vault/event-store';
import { deniedEvent, parseInput, type Answer, type RequestContext } from '@token-vault/operations';
import { outsideTransaction } from '../transactions/context.ts';
import type { TokenCreation } from './create.ts';
import { deleteToken } from './delete.ts';
import type { TokenDependencies } from './dependencies.ts';
import { tokensOfCreate } from './told.ts';

/** Items that are under way at once: their keys share round trips, and the events that create tokens are one append (ADR 31). */
const chunkSize = 100;
/**
 * Items that begin before other requests have their turn, in about 2 ms. Their keys share an insert: with 10 items, inserts of keys took a
 * third more of Postgres' time.
 */
const begunAtOnce = 25;

type Outcome<Result> = { readonly done: Result } | { readonly error: DomainError };

/** An error of one item. Any other error ends the request: what became of the items is then unknown (rules.md §1). */
function asItemError(error: unknown): DomainError {
  if (error instanceof DomainError && error.status < 500) return error;
  throw error;
}

/**
 * Does the work of each item, by the rules of the single operation; the failure of one item does not affect the others. The ids of an
 * item's events depend on its place only, so a repeat of the request under its idempotency key does no item twice. The writes of a
 * transaction are made one after the other, since all of them change the stream of the transaction. Each chunk is decided by the present
 * rights of the caller: after a key is withdrawn, nothing more is written by it (rules.md §6).
 * @throws the first error that is not about an item, when all items of its chunk have ended; UnauthenticatedError, ForbiddenError when the
 * caller may not go on
 */
async function eachItem<Item, Result>(
  items: readonly Item[],
  context: RequestContext,
  work: (item: Item, context: RequestContext, member: GroupMember) => Promise<Result>,
): Promise<Outcome<Result>[]> {
  const size = context.transactionId === undefined ? chunkSize : 1;
  const outcomes: Outcome<Result>[] = [];
  for (let from = 0; from < items.length; from += size) {
    const current = (await context.renewed()) ?? context;
    const running: Promise<Result>[] = [];
    const chunk = items.slice(from, from + size);
    const group = new AppendGroup(chunk.length);
    for (const [index, item] of chunk.entries()) {
      if ((from + index) % begunAtOnce === 0) await nextTurn();
      const member = group.join();
      const one = work(item, current.part(from + index), member).finally(() => member.leave());
      // It is awaited below, when the rest of its chunk has begun.
      one.catch(() => undefined);
      running.push(one);
    }
    const ended = await Promise.allSettled(running);
    for (const each of ended)
      outcomes.push(each.status === 'fulfilled' ? { done: each.value } : { error: asItemError(each.reason) });
  }
  return outcomes;
}

/** The refusals of items are recorded as those of single requests, before the answer. */
async function recordRefusals(
  { audit }: TokenDependencies,
  outcomes: readonly Outcome<unknown>[],
  permission: Permission,
  given: RequestContext,
): Promise<void> {
  const context = outsideTransaction(given);
  const events = outcomes.flatMap((each) => {
    if (!('error' in each && each.error instanceof ForbiddenError)) return [];
    return [deniedEvent(context, each.error, { entity: { type: 'token' }, permission })];
  });
  for (let from = 0; from < events.length; from += chunkSize)
    await audit.recordAll(context, events.slice(from, from + chunkSize));
}

const last = (positions: readonly (Position | undefined)[]): Position | undefined =>
  positions
    .filter((position) => position !== undefined)
    .sort(comparePositions)
    .at(-1);

const positionOf = (outcome: Outcome<{ readonly position: Position | undefined }>): Position | undefined =>
  'done' in outcome ? outcome.done.position : undefined;

/** Creates tokens, each by itself. @throws NotFoundError, ConflictError for the transaction */
export async function createTokens(
  dependencies: TokenDependencies,
  creation: TokenCreation,
  tokens: readonly Secret<Json>[],
  context: RequestContext,
): Promise<Answer> {
  await dependencies.enlistment.check(context);
  const outcomes = await eachItem(tokens, context, async (item, of, member) =>
    creation.create(
      parseInput(createTokenBody, item.expose(), { root: 'token' }) as CreateTokenBody,
      of,
      member,
    ),
  );
  await recordRefusals(dependencies, outcomes, 'token:create', context);
  const results = outcomes.map((each): BatchAnswer['results'][number] =>
    'done' in each
      ? { status: each.done.isNew ? 201 : 200, token: each.done.token }
      : { status: each.error.status, error: itemErrorOf(each.error) },
  );
  const shown = outcomes.flatMap((each, index) =>
    'done' in each ? tokensOfCreate(each.done, ['results', index, 'token']) : [],
  );
  const isRepeat = outcomes.some((each) => 'done' in each && each.done.isRepeat);
  return { body: { results }, position: last(outcomes.map(positionOf)), tokens: shown, isRepeat };
}

/** Deletes tokens, each by itself. @throws NotFoundError, ConflictError for the transaction */
export async function deleteTokens(
  dependencies: TokenDependencies,
  ids: readonly string[],
  context: RequestContext,
): Promise<Answer> {
  await dependencies.enlistment.check(context);
  const outcomes = await eachItem(ids, context, (id, of) => deleteToken(dependencies, id, of));
  await recordRefusals(dependencies, outcomes, 'token:delete', context);
  const results = outcomes.map((each, index): DeleteTokensAnswer['results'][number] => ({
    id: ids[index] ?? '',
    ...('done' in each ? { status: 204 } : { status: each.error.status, error: itemErrorOf(each.error) }),
  }));
  const deleted = outcomes.flatMap((each) => ('done' in each ? [each.done.token] : []));
  return { body: { results }, position: last(outcomes.map(positionOf)), deleted };
}

import {
  createTokenBody,
  DomainError,
  ValidationError,
  type CreateTokenBody,
  type Json,
  type JsonInput,
  type JsonObject,
  type Secret,
} from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import { comparePositions } from '@token-vault/event-store';
import { parseInput, type AnswerToken, type Path, type RequestContext } from '@token-vault/operations';
import type { CreatedToken, TokenCreation } from './create.ts';
import { appendDeletion } from './delete.ts';
import type { TokenDependencies } from './dependencies.ts';
import { draftToken, type DraftDependencies, type TokenDraft } from './drafts.ts';
import { tokensOfCreate } from './told.ts';

/** rules.md §3: tokenize ≤ 100 tokens. */
const maxTokens = 100;

/**
 * A place in the payload that becomes a token. The answer holds the id in place of a `leaf`, the token in place of an
 * `object`.
 */
type Place = { readonly at: Path; readonly path: string } & (
  | { readonly kind: 'leaf'; readonly value: string | number | boolean }
  | { readonly kind: 'object'; readonly value: JsonObject }
);

interface Slot {
  readonly kind: Place['kind'];
  readonly at: Path;
  readonly path: string;
  readonly body: CreateTokenBody;
}

const dotted = (path: Path): string => path.join('.') || 'body';

/**
 * An object is parsed as the body of a create. The number of fields is checked before each field, so that one object of a payload costs no
 * more than one request.
 */
const bodyOf = ({ kind, value, at }: Place, isLenient: boolean): CreateTokenBody =>
  kind === 'leaf'
    ? createTokenBody.parse({ type: 'token', data: value })
    : (parseInput(createTokenBody, value, { root: 'body', isLenient, within: at }) as CreateTokenBody);

const isTokenBody = (value: JsonObject): boolean =>
  Object.hasOwn(value, 'type') && Object.hasOwn(value, 'data');

/** Replaces each place by the result of `visit`. Null stays null (rules.md §8). */
function mapPlaces(value: Json, path: Path, visit: (place: Place) => JsonInput): JsonInput {
  if (value === null) return null;
  if (Array.isArray(value)) return value.map((item, index) => mapPlaces(item, [...path, index], visit));
  const place = { at: path, path: dotted(path) };
  if (typeof value !== 'object') return visit({ kind: 'leaf', value, ...place });
  if (isTokenBody(value)) return visit({ kind: 'object', value, ...place });
  const result: Record<string, JsonInput> = {};
  for (const [key, child] of Object.entries(value)) {
    const mapped = mapPlaces(child, [...path, key], visit);
    Object.defineProperty(result, key, {
      value: mapped,
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return result;
}

function collect(payload: Secret<Json>, isLenient: boolean): Slot[] {
  const slots: Slot[] = [];
  mapPlaces(payload.expose(), [], (place) => {
    const { kind, at, path } = place;
    slots.push({ kind, at, path, body: bodyOf(place, isLenient) });
    if (slots.length > maxTokens)
      throw ValidationError.of('body', `must not hold more than ${maxTokens} tokens`);
    return null;
  });
  return slots;
}

function nested(error: unknown, path: string): unknown {
  if (!(error instanceof ValidationError) || path === 'body' || !error.errors) return error;
  const errors = Object.entries(error.errors).map(
    ([field, messages]) => [`${path}.${field}`, messages] as const,
  );
  return new ValidationError(Object.fromEntries(errors));
}

/** How the answer shows the token of a leaf. */
const idOnly = { transform: 'redact', isReadable: false } as const;

async function draftAll(
  dependencies: DraftDependencies,
  slots: readonly Slot[],
  context: RequestContext,
): Promise<TokenDraft[]> {
  return Promise.all(
    slots.map(async ({ kind, body, path }) => {
      try {
        const draft = await draftToken(dependencies, body, context);
        return kind === 'leaf' ? { ...draft, shownAs: () => idOnly } : draft;
      } catch (error) {
        throw nested(error, path);
      }
    }),
  );
}

export interface Tokenized {
  readonly body: JsonInput;
  readonly position: Position | undefined;
  readonly tokens: readonly AnswerToken[];
  /** An interrupted attempt created at least one of the tokens. */
  readonly isRepeat: boolean;
}

/** Makes all tokens of the payload visible at once: by a new transaction, unless the caller brought one. */
export interface AtomicWrites {
  run<Result>(
    context: RequestContext,
    work: (enlisted: RequestContext) => Promise<Result>,
  ): Promise<{ result: Result; position: Position | undefined }>;
}

export interface TokenizeDependencies {
  readonly dependencies: TokenDependencies;
  readonly creation: TokenCreation;
  readonly atomic: AtomicWrites;
}

/**
 * Tokenizes any JSON, either completely or not at all. @throws ValidationError with the paths within the payload,
 * ForbiddenError, ConflictError
 */
export async function tokenize(
  { dependencies, creation, atomic }: TokenizeDependencies,
  payload: Secret<Json>,
  context: RequestContext,
): Promise<Tokenized> {
  await dependencies.enlistment.check(context);
  const slots = collect(payload, context.isLenient);
  const drafts = await draftAll(dependencies, slots, context);
  const created: CreatedToken[] = [];
  const createAll = async (within: RequestContext): Promise<void> => {
    // One after the other, so that equal values in the payload are deduplicated.
    for (const draft of drafts) created.push(await creation.createDraft(draft, within));
  };
  let position: Position | undefined;
  if (context.transactionId !== undefined) await createOrWithdraw(dependencies, context, createAll, created);
  else if (drafts.length <= 1) await createAll(context);
  else ({ position } = await atomic.run(context, createAll));
  // A value that is not an object is replaced by the id of its token.
  const tokens = slots.flatMap(({ kind, at }, index) => {
    const each = created[index];
    return each ? tokensOfCreate(each, kind === 'object' ? at : undefined) : [];
  });
  const isRepeat = created.some((each) => each.isRepeat);
  return { body: fill(payload, created), position: position ?? last(created), tokens, isRepeat };
}

/**
 * The caller may still commit its transaction, so after a failure the tokens that were created before it are
 * withdrawn. When the withdrawal itself fails, the caller gets that error: the outcome is then unknown, and a
 * rollback settles it.
 */
async function createOrWithdraw(
  dependencies: TokenDependencies,
  context: RequestContext,
  createAll: (within: RequestContext) => Promise<void>,
  created: readonly CreatedToken[],
): Promise<void> {
  try {
    await createAll(context);
  } catch (error) {
    for (const { token, isNew } of created) if (isNew) await withdraw(dependencies, context, token.id);
    throw error;
  }
}

async function withdraw(dependencies: TokenDependencies, context: RequestContext, id: string): Promise<void> {
  try {
    await appendDeletion(dependencies, id, context, () => undefined);
  } catch (error) {
    // The token is gone already, or its transaction has ended: it was dropped, or the caller committed it.
    if (!(error instanceof DomainError)) throw error;
  }
}

function fill(payload: Secret<Json>, created: readonly CreatedToken[]): JsonInput {
  let next = 0;
  return mapPlaces(payload.expose(), [], ({ kind }) => {
    const token = created[next]?.token;
    next += 1;
    if (!token) throw new Error('a token of the payload is missing');
    return kind === 'leaf' ? token.id : token;
  });
}

function last(created: readonly CreatedToken[]): Position | undefined {
  return created
    .map((each) => each.position)
    .filter((position) => position !== undefined)
    .sort(comparePositions)
    .at(-1);
}

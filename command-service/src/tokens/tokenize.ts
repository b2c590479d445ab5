import {
  createTokenBody,
  ValidationError,
  type CreateTokenBody,
  type Json,
  type JsonObject,
  type Token,
} from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { Position } from '@token-vault/event-store';
import { comparePositions } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import type { CreatedToken, TokenCreation } from './create.ts';
import { draftToken, type TokenDraft } from './drafts.ts';

/** decisions.md §3: tokenize ≤ 100 tokens. */
const maxTokens = 100;

/** A place in the payload that becomes a token. A `leaf` is answered by its id, an `object` by the token. */
interface Slot {
  readonly kind: 'leaf' | 'object';
  readonly path: string;
  readonly body: CreateTokenBody;
}

type Path = readonly (string | number)[];
const dotted = (path: Path): string => path.join('.') || 'body';

function parseBody(value: JsonObject, path: Path): CreateTokenBody {
  const result = createTokenBody.safeParse(value);
  if (result.success) return result.data;
  const errors: Record<string, string[]> = {};
  for (const issue of result.error.issues) {
    (errors[dotted([...path, ...issue.path.map(String)])] ??= []).push(issue.message);
  }
  throw new ValidationError(errors);
}

const isTokenBody = (value: JsonObject): boolean =>
  Object.hasOwn(value, 'type') && Object.hasOwn(value, 'data');

/** Replaces every token-to-be by what `visit` gives for it; null stays null (decisions.md §8). */
function mapSlots(value: Json, path: Path, visit: (slot: Slot) => Json): Json {
  if (value === null) return null;
  if (Array.isArray(value)) return value.map((item, index) => mapSlots(item, [...path, index], visit));
  if (typeof value !== 'object') {
    return visit({
      kind: 'leaf',
      path: dotted(path),
      body: createTokenBody.parse({ type: 'token', data: value }),
    });
  }
  if (isTokenBody(value)) return visit({ kind: 'object', path: dotted(path), body: parseBody(value, path) });
  const result: JsonObject = {};
  for (const [key, child] of Object.entries(value)) {
    const mapped = mapSlots(child, [...path, key], visit);
    Object.defineProperty(result, key, {
      value: mapped,
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return result;
}

function collect(payload: Json): Slot[] {
  const slots: Slot[] = [];
  mapSlots(payload, [], (slot) => {
    slots.push(slot);
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

async function draftAll(
  keyRing: KeyRing,
  slots: readonly Slot[],
  context: RequestContext,
): Promise<TokenDraft[]> {
  return Promise.all(
    slots.map(async ({ body, path }) => {
      try {
        return await draftToken(keyRing, body, context);
      } catch (error) {
        throw nested(error, path);
      }
    }),
  );
}

export interface Tokenized {
  readonly body: Json;
  readonly position: Position | undefined;
}

/** What makes many tokens appear at once: a transaction of our own, unless the caller brought one. */
export interface AtomicWrites {
  run<Result>(
    context: RequestContext,
    work: (enlisted: RequestContext) => Promise<Result>,
  ): Promise<{ result: Result; position: Position | undefined }>;
}

/** Tokenizes any JSON, all or nothing. @throws ValidationError with the paths within the payload, ForbiddenError */
export async function tokenize(
  dependencies: { keyRing: KeyRing; creation: TokenCreation; atomic: AtomicWrites },
  payload: Json,
  context: RequestContext,
): Promise<Tokenized> {
  const slots = collect(payload);
  const drafts = await draftAll(dependencies.keyRing, slots, context);
  const createAll = async (within: RequestContext): Promise<CreatedToken[]> => {
    const created: CreatedToken[] = [];
    // One after the other: equal values that are deduplicated must find each other.
    for (const draft of drafts) created.push(await dependencies.creation.createDraft(draft, within));
    return created;
  };
  const isAlone = drafts.length <= 1 || context.transactionId !== undefined;
  const { result, position } = isAlone
    ? { result: await createAll(context), position: undefined }
    : await dependencies.atomic.run(context, createAll);
  const tokens: Token[] = result.map((created) => created.token);
  let next = 0;
  const body = mapSlots(payload, [], (slot) => {
    const token = tokens[next];
    next += 1;
    if (!token) throw new Error('a token of the payload is missing');
    return slot.kind === 'leaf' ? token.id : (token as unknown as JsonObject);
  });
  return { body, position: position ?? last(result) };
}

function last(created: readonly CreatedToken[]): Position | undefined {
  return created
    .map((each) => each.position)
    .filter((position) => position !== undefined)
    .sort(comparePositions)
    .at(-1);
}

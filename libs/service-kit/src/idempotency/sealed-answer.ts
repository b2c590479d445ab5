import type { Json, JsonObject } from '@token-vault/contracts';
import { seal, secret, type KeyRing, type SealedValue } from '@token-vault/crypto';
import { parsePosition } from '@token-vault/event-store';
import type { Answer } from '@token-vault/operations';

/** What is stored of an answer. */
export interface StoredAnswer {
  readonly status?: number;
  readonly position?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The body without the tokens in it, as a `Frame`; `token` when it is just a token. */
  readonly body?: SealedPart | 'token';
  readonly tokens: readonly SealedPart[];
}

interface SealedPart {
  readonly entity: string;
  readonly sealed: string;
}

type TokenObject = JsonObject & { id: string };
type Path = readonly (string | number)[];

interface Found {
  readonly token: TokenObject;
  readonly path: Path;
}

interface Frame {
  /** With null where tokens are. */
  readonly body: Json;
  /** Where they are, in their order. */
  readonly paths: readonly Path[];
}

/** Which calls of the key ring answers need. */
export type AnswerKeys = Pick<KeyRing, 'createDataKey' | 'open'>;

const field = 'answer';
/** interface.md, card data shape: what was created with a cvc is not shown with it after an hour. */
const cvcLifetimeMs = 60 * 60 * 1000;

/**
 * The keys of a token's stored answers. Apart from those of the token itself, so that destroying them all when a token ends
 * cannot take the keys of another that gets the same id at that moment.
 */
export const answerEntityOfToken = (tokenId: string): string => `answer-of-token:${tokenId}`;

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function isTokenObject(value: JsonObject, tenantId: string): value is TokenObject {
  return (
    typeof value.id === 'string' &&
    value.id.length <= 400 &&
    value.tenant_id === tenantId &&
    typeof value.type === 'string' &&
    Array.isArray(value.containers)
  );
}

/** Takes the tokens out of a body, however deep they are; bodies are never deeper than requests may be. */
function takeTokens(value: Json, tenantId: string, found: Found[], path: Path): Json {
  if (Array.isArray(value))
    return value.map((item, index) => takeTokens(item, tenantId, found, [...path, index]));
  if (!isObject(value)) return value;
  if (isTokenObject(value, tenantId)) {
    found.push({ token: value, path });
    return null;
  }
  const entries = Object.entries(value).map(
    ([name, item]) => [name, takeTokens(item, tenantId, found, [...path, name])] as const,
  );
  return Object.fromEntries(entries);
}

function putTokens({ body, paths }: Frame, tokens: readonly Json[]): Json {
  const root: JsonObject = { body };
  paths.forEach((path, index) => {
    const steps = ['body', ...path];
    const last = steps.pop() ?? 'body';
    let place = root;
    for (const step of steps) place = place[step] as JsonObject;
    place[last] = tokens[index] ?? null;
  });
  return root.body ?? null;
}

/** A token is not shown after it has expired, nor a cvc after its hour, also not by a replay. */
function endOf(token: JsonObject, now: Date, expiresAt: Date): Date {
  let end = expiresAt.getTime();
  const tokenEnd = typeof token.expires_at === 'string' ? Date.parse(token.expires_at) : Number.NaN;
  if (tokenEnd < end) end = tokenEnd;
  if (isObject(token.data) && token.data.cvc !== undefined)
    end = Math.min(end, now.getTime() + cvcLifetimeMs);
  return new Date(end);
}

async function sealPart(
  keys: AnswerKeys,
  tenantId: string,
  entity: string,
  value: Json,
  destroyAfter: Date,
): Promise<SealedPart> {
  // Answers are not in the log: no append follows that would make the key durable.
  const request = { tenantId, entity, purpose: field, destroyAfter, durability: 'own' } as const;
  const { key, stored } = await keys.createDataKey(request);
  const sealed = seal(key, { tenantId, entity, field }, secret(value));
  key.wipe();
  await stored;
  return { entity, sealed };
}

/** Seals an answer under keys that end with it: each token in it under one of that token's, so that it is shredded with it. */
export async function sealAnswer(
  keys: AnswerKeys,
  request: {
    readonly tenantId: string;
    readonly requestId: string;
    readonly now: Date;
    readonly expiresAt: Date;
  },
  answer: Answer,
): Promise<StoredAnswer> {
  const { tenantId, requestId, now, expiresAt } = request;
  const { status, position, headers } = answer;
  const rest = {
    ...(status === undefined ? {} : { status }),
    ...(position === undefined ? {} : { position }),
    ...(headers === undefined ? {} : { headers }),
  };
  if (answer.body === undefined) return { ...rest, tokens: [] };
  // As the client got it: without what JSON leaves out.
  const body = JSON.parse(JSON.stringify(answer.body)) as Json;
  const found: Found[] = [];
  const frame = { body: takeTokens(body, tenantId, found, []), paths: found.map(({ path }) => [...path]) };
  const isToken = found[0]?.path.length === 0;
  const [sealedFrame, ...tokens] = await Promise.all([
    isToken ? ('token' as const) : sealPart(keys, tenantId, `idempotent:${requestId}`, frame, expiresAt),
    ...found.map(({ token }) =>
      sealPart(keys, tenantId, answerEntityOfToken(token.id), token, endOf(token, now, expiresAt)),
    ),
  ]);
  return { ...rest, body: sealedFrame, tokens };
}

/** @throws KeyDestroyedError when something in it is not to be shown any more */
export async function openAnswer(keys: AnswerKeys, tenantId: string, stored: StoredAnswer): Promise<Answer> {
  const { status, position, headers, body } = stored;
  const open = async ({ entity, sealed }: SealedPart) =>
    (await keys.open({ tenantId, entity, field }, sealed as SealedValue)).expose();
  const rest = {
    ...(status === undefined ? {} : { status }),
    ...(position === undefined ? {} : { position: parsePosition(position) }),
    ...(headers === undefined ? {} : { headers }),
  };
  if (body === undefined) return rest;
  const tokens = await Promise.all(stored.tokens.map(open));
  if (body === 'token') return { ...rest, body: tokens[0] };
  return { ...rest, body: putTokens((await open(body)) as unknown as Frame, tokens) };
}

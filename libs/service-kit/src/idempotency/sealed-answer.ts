import type { Json, JsonObject } from '@token-vault/contracts';
import {
  keyIdOf,
  KeyDestroyedError,
  newShare,
  openWithShares,
  sealWithShares,
  secret,
  type KeyRing,
  type SealedValue,
} from '@token-vault/crypto';
import { parsePosition } from '@token-vault/event-store';
import type { Answer, AnswerToken, StoredToken, TokenFacts } from '@token-vault/operations';

/**
 * Of version 1 were answers that held tokens as they had been shown. They are not shown any more. Version 3 ends with something else than
 * tokens too; a release that does not know it does not show it.
 */
const versions = [2, 3] as const;

/** What is stored of an answer. The tokens in it are named only: they are shown as they are when it is shown again. */
export interface StoredAnswer {
  readonly version: (typeof versions)[number];
  readonly status?: number;
  readonly position?: string;
  readonly tokens: readonly StoredToken[];
  /** Body without tokens, and headers. Absent when the body is nothing or just a token. */
  readonly rest?: SealedRest;
  /** After it the rest is not shown, although its keys may still be there. */
  readonly endsAt: string;
  /** Of all the rest, for this request: the tokens and how they were had decide what is shown. */
  readonly signature?: string;
}

/** `shares`: one for each owner, under keys that end with it, so that the text opens only while all of them live. */
type SealedRest =
  { readonly sealed: string } | { readonly text: string; readonly shares: readonly SealedShare[] };

/** A token, or what the answer says it ends with. */
type Owner = { readonly tokenId: string } | { readonly entity: string };
type SealedShare = Owner & { readonly sealed: string };

interface Rest {
  readonly body?: Json;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Which calls of the key ring answers need. */
export type AnswerKeys = Pick<KeyRing, 'sealNew' | 'open' | 'destroyKeys'>;

export interface AnsweredRequest {
  readonly tenantId: string;
  readonly requestId: string;
  readonly expiresAt: Date;
}

const field = 'answer';

/**
 * The keys of a token's stored answers. Apart from those of the token itself, so that destroying them all when a token ends
 * cannot take the keys of another that gets the same id at that moment.
 */
export const answerEntityOfToken = (tokenId: string): string => `answer-of-token:${tokenId}`;

const entityOfOwner = (owner: Owner): string =>
  'entity' in owner ? owner.entity : answerEntityOfToken(owner.tokenId);

const entityOfRequest = (requestId: string): string => `idempotent:${requestId}`;

/** Answers are not in the log: no append follows that would make the key durable. */
const sealPart = (
  keys: AnswerKeys,
  tenantId: string,
  entity: string,
  value: Json,
  destroyAfter: Date,
): Promise<SealedValue> =>
  keys.sealNew({ tenantId, entity, field }, secret(value), { destroyAfter, durability: 'own' });

const isWholeBody = (tokens: readonly AnswerToken[]): boolean => tokens.some(({ at }) => at?.length === 0);

/** Without the tokens, whose places are left as null. The body is a copy of its own. */
function withoutTokens(body: Json, tokens: readonly AnswerToken[]): Json {
  const root: JsonObject = { body };
  for (const { at } of tokens) {
    if (at === undefined) continue;
    const steps = ['body', ...at];
    const last = steps.pop() ?? 'body';
    let place = root;
    for (const step of steps) place = place[step] as JsonObject;
    place[last] = null;
  }
  return root.body ?? null;
}

function restOf({ body, headers, tokens = [] }: Answer): Rest {
  // As the client got it: without what JSON leaves out.
  const copy = body === undefined ? undefined : (JSON.parse(JSON.stringify(body)) as Json);
  return {
    ...(copy === undefined || isWholeBody(tokens) ? {} : { body: withoutTokens(copy, tokens) }),
    ...(headers === undefined ? {} : { headers }),
  };
}

const ownersOf = ({ endsWith }: Answer, tokens: readonly StoredToken[]): readonly Owner[] => [
  ...[...new Set(tokens.map(({ id }) => id))].map((tokenId) => ({ tokenId })),
  ...(endsWith === undefined ? [] : [{ entity: endsWith.entity }]),
];

async function sealedRest(
  keys: AnswerKeys,
  { tenantId, requestId }: AnsweredRequest,
  answer: Answer,
  { tokens, endsAt }: { readonly tokens: readonly StoredToken[]; readonly endsAt: Date },
): Promise<SealedRest | undefined> {
  const rest = restOf(answer);
  if (rest.body === undefined && rest.headers === undefined) return undefined;
  const owners = ownersOf(answer, tokens);
  const entity = entityOfRequest(requestId);
  if (owners.length === 0)
    return { sealed: await sealPart(keys, tenantId, entity, rest as unknown as Json, endsAt) };
  const parts = await Promise.all(
    owners.map(async (owner) => {
      const share = newShare();
      const sealed = await sealPart(keys, tenantId, entityOfOwner(owner), share, endsAt);
      return { share, stored: { ...owner, sealed } };
    }),
  );
  const shares = parts.map(({ share }) => share);
  const text = sealWithShares(shares, `${tenantId} ${entity}`, JSON.stringify(rest));
  return { text, shares: parts.map(({ stored }) => stored) };
}

/** Other tokens are not in what is stored: a repeat shows them as they are then. */
const isMaterial = ({ by }: AnswerToken): boolean => by === 'use' || by === 'seen';

/** Asks for what the handler did not say. Undefined when a token is gone already. */
async function storedTokens(
  tokens: readonly AnswerToken[],
  factsOf: (ids: readonly string[]) => Promise<readonly (TokenFacts | undefined)[]>,
): Promise<{ tokens: readonly StoredToken[]; cvcEnds: readonly number[] } | undefined> {
  const asked = [...new Set(tokens.filter(({ createdAt }) => createdAt === undefined).map(({ id }) => id))];
  const answers = asked.length === 0 ? [] : await factsOf(asked);
  const facts = new Map(asked.map((id, index) => [id, answers[index]]));
  const known: StoredToken[] = [];
  for (const token of tokens) {
    const createdAt = token.createdAt ?? facts.get(token.id)?.createdAt;
    if (createdAt === undefined) return undefined;
    const { id, at, by } = token;
    known.push({ id, ...(at === undefined ? {} : { at }), by, createdAt });
  }
  // A cvc that was shown may have been purged since: the end at the moment of use counts.
  const usedEnds = tokens.filter(isMaterial).map(({ cvcEndsAt }) => cvcEndsAt);
  const cvcEnds = [...usedEnds, ...[...facts.values()].map((fact) => fact?.cvcEndsAt)];
  return { tokens: known, cvcEnds: cvcEnds.flatMap((end) => (end === undefined ? [] : [Date.parse(end)])) };
}

/** Seals an answer under keys that end with it, and with everything that went into it. Undefined when one has ended already. */
export async function sealAnswer(
  keys: AnswerKeys,
  request: AnsweredRequest,
  answer: Answer,
  factsOf: (ids: readonly string[]) => Promise<readonly (TokenFacts | undefined)[]>,
): Promise<StoredAnswer | undefined> {
  const { status, position } = answer;
  const stored = await storedTokens(answer.tokens ?? [], factsOf);
  if (!stored) return undefined;
  // What was made of a cvc ends with it (interface.md, card data shape).
  const endsAt = new Date(Math.min(request.expiresAt.getTime(), ...stored.cvcEnds));
  const rest = await sealedRest(keys, request, answer, { tokens: stored.tokens, endsAt });
  if (rest !== undefined && !(await isWhole(answer, stored.tokens, factsOf))) {
    await keys.destroyKeys(request.tenantId, keyIdsOf(rest));
    return undefined;
  }
  return {
    version: answer.endsWith === undefined ? 2 : 3,
    ...(status === undefined ? {} : { status }),
    ...(position === undefined ? {} : { position }),
    tokens: stored.tokens,
    ...(rest === undefined ? {} : { rest }),
    endsAt: endsAt.toISOString(),
  };
}

/**
 * Whether everything whose data may be in the answer is there still. Asked when the keys are stored: what ended before that did
 * not find them, and what ends later does.
 */
async function isWhole(
  { endsWith }: Answer,
  tokens: readonly StoredToken[],
  factsOf: (ids: readonly string[]) => Promise<readonly (TokenFacts | undefined)[]>,
): Promise<boolean> {
  const held = tokens.filter((token) => isMaterial(token) || token.by === 'output');
  const facts = held.length === 0 ? [] : await factsOf(held.map(({ id }) => id));
  if (facts.some((fact, index) => fact?.createdAt !== held[index]?.createdAt)) return false;
  return endsWith === undefined || (await endsWith.isThere());
}

const keyIdsOf = (rest: SealedRest): string[] =>
  ('shares' in rest ? rest.shares : [rest]).map(({ sealed }) => keyIdOf(sealed as SealedValue));

/** That the request succeeded: a repeat must not run it again, and cannot be shown what it answered. */
export const notKept = (now: Date): StoredAnswer => ({ version: 2, tokens: [], endsAt: now.toISOString() });

async function openRest(
  keys: AnswerKeys,
  { tenantId, requestId }: Pick<AnsweredRequest, 'tenantId' | 'requestId'>,
  rest: SealedRest,
): Promise<Rest> {
  const entity = entityOfRequest(requestId);
  if ('sealed' in rest) {
    const place = { tenantId, entity, field };
    return (await keys.open(place, rest.sealed as SealedValue)).expose() as unknown as Rest;
  }
  const shares = await Promise.all(
    rest.shares.map(async (share) => {
      const place = { tenantId, entity: entityOfOwner(share), field };
      return (await keys.open(place, share.sealed as SealedValue)).expose() as string;
    }),
  );
  return JSON.parse(openWithShares(shares, `${tenantId} ${entity}`, rest.text)) as Rest;
}

/** @throws KeyDestroyedError for an answer of an older release, which is not shown any more */
export function requireCurrentVersion(requestId: string, stored: StoredAnswer): void {
  if (!versions.includes(stored.version)) throw new KeyDestroyedError(requestId);
}

/** @throws KeyDestroyedError when something in it is not to be shown any more */
export async function openAnswer(
  keys: AnswerKeys,
  request: Pick<AnsweredRequest, 'tenantId' | 'requestId'>,
  stored: StoredAnswer,
  now: Date,
): Promise<{ answer: Answer; tokens: readonly StoredToken[] }> {
  if (Date.parse(stored.endsAt) <= now.getTime()) throw new KeyDestroyedError(request.requestId);
  const { status, position, rest, tokens } = stored;
  const opened = rest === undefined ? {} : await openRest(keys, request, rest);
  const answer: Answer = {
    ...(status === undefined ? {} : { status }),
    ...(position === undefined ? {} : { position: parsePosition(position) }),
    ...opened,
  };
  return { answer, tokens };
}

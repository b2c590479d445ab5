import type { Json, JsonInput, JsonObject } from '@token-vault/contracts';
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
import {
  namedTokens,
  type Answer,
  type AnswerToken,
  type StoredToken,
  type TokenFacts,
} from '@token-vault/operations';

/**
 * Answers of version 1 held tokens as they had been shown; they are not shown any more. Version 3 adds answers that expire with an entity
 * other than a token; a release that does not know version 3 does not show them. Version 4 names the application by whose rights reactor
 * code was shown a token.
 */
const versions = [2, 3, 4] as const;

/** The stored form of an answer. It holds only the names of its tokens: a repeat shows their present state. */
export interface StoredAnswer {
  readonly version: (typeof versions)[number];
  readonly status?: number;
  readonly position?: string;
  readonly tokens: readonly StoredToken[];
  /** Body without tokens, and headers. Absent when the body is empty or only a token. */
  readonly rest?: SealedRest;
  /** After this time the rest is not shown, even if its keys still exist. */
  readonly endsAt: string;
  /** Covers the whole answer, for this request: the tokens and the reasons why the caller got them decide what is shown. */
  readonly signature?: string;
}

/** `shares`: one for each owner, under keys that are destroyed with the owner. The text opens only while all owners exist. */
type SealedRest =
  { readonly sealed: string } | { readonly text: string; readonly shares: readonly SealedShare[] };

/** A token or another entity that the answer expires with. */
type Owner = { readonly tokenId: string } | { readonly entity: string };
type SealedShare = Owner & { readonly sealed: string };

/** A type alias: the compiler accepts it as JSON, which it does not do for an interface. */
type Rest = {
  readonly body?: Json;
  readonly headers?: Readonly<Record<string, string>>;
  readonly invocationId?: string;
};

/** The functions of the key ring that answers need. */
export type AnswerKeys = Pick<KeyRing, 'sealNew' | 'open' | 'destroyKeys'>;

export interface AnsweredRequest {
  readonly tenantId: string;
  readonly requestId: string;
  readonly expiresAt: Date;
}

const field = 'answer';

/**
 * The entity of the keys of a token's stored answers. It differs from the token's own entity. So when a token is deleted and all these keys
 * are destroyed, the keys of a new token with the same id are not affected.
 */
export const answerEntityOfToken = (tokenId: string): string => `answer-of-token:${tokenId}`;

const entityOfOwner = (owner: Owner): string =>
  'entity' in owner ? owner.entity : answerEntityOfToken(owner.tokenId);

const entityOfRequest = (requestId: string): string => `idempotent:${requestId}`;

/** Answers are not in the log: no append follows that would make the key durable. */
const sealPart = (
  keys: AnswerKeys,
  place: { readonly tenantId: string; readonly entity: string },
  value: JsonInput,
  destroyAfter: Date,
): Promise<SealedValue> =>
  keys.sealNew({ ...place, field }, secret(value), { destroyAfter, durability: 'own' });

const isWholeBody = (tokens: readonly AnswerToken[]): boolean => tokens.some(({ at }) => at?.length === 0);

/** The body with null in the places of the tokens. The body is copied. */
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

function restOf({ body, headers, invocationId, tokens = [] }: Answer): Rest {
  // As the client received it: without the fields that JSON omits.
  const copy = body === undefined ? undefined : (JSON.parse(JSON.stringify(body)) as Json);
  return {
    ...(copy === undefined || isWholeBody(tokens) ? {} : { body: withoutTokens(copy, tokens) }),
    ...(headers === undefined ? {} : { headers }),
    ...(invocationId === undefined ? {} : { invocationId }),
  };
}

const ownersOf = ({ endsWith }: Answer, tokens: readonly StoredToken[]): readonly Owner[] => [
  ...[...new Set(tokens.filter(({ by }) => by !== 'ran').map(({ id }) => id))].map((tokenId) => ({
    tokenId,
  })),
  ...(endsWith === undefined ? [] : [{ entity: endsWith.entity }]),
];

async function sealedRest(
  keys: AnswerKeys,
  { tenantId, requestId }: AnsweredRequest,
  answer: Answer,
  { tokens, endsAt }: { readonly tokens: readonly StoredToken[]; readonly endsAt: Date },
): Promise<SealedRest | undefined> {
  const rest = restOf(answer);
  if (Object.keys(rest).length === 0) return undefined;
  const owners = ownersOf(answer, tokens);
  const entity = entityOfRequest(requestId);
  if (owners.length === 0) return { sealed: await sealPart(keys, { tenantId, entity }, rest, endsAt) };
  const parts = await Promise.all(
    owners.map(async (owner) => {
      const share = newShare();
      const sealed = await sealPart(keys, { tenantId, entity: entityOfOwner(owner) }, share, endsAt);
      return { share, stored: { ...owner, sealed } };
    }),
  );
  const shares = parts.map(({ share }) => share);
  const text = sealWithShares(shares, `${tenantId} ${entity}`, JSON.stringify(rest));
  return { text, shares: parts.map(({ stored }) => stored) };
}

const isSeen = ({ by }: AnswerToken): boolean => by === 'seen' || by === 'ran';

/** Data of other tokens is not in the stored text: a repeat shows their present state. */
const isMaterial = ({ by }: AnswerToken): boolean => by === 'use' || by === 'seen';

/** Undefined when one of the tokens was deleted. */
async function storedTokens(
  tokens: readonly AnswerToken[],
  factsOf: (ids: readonly string[]) => Promise<readonly (TokenFacts | undefined)[]>,
): Promise<{ tokens: readonly StoredToken[]; cvcEnds: readonly number[] } | undefined> {
  const named = await namedTokens(tokens, factsOf);
  if (!named) return undefined;
  // A cvc that was shown may have been deleted since: its expiry at the moment of use counts.
  const usedEnds = tokens.filter(isMaterial).map(({ cvcEndsAt }) => cvcEndsAt);
  const cvcEnds = [...usedEnds, ...named.facts.map((fact) => fact.cvcEndsAt)];
  return {
    tokens: named.tokens,
    cvcEnds: cvcEnds.flatMap((end) => (end === undefined ? [] : [Date.parse(end)])),
  };
}

/**
 * Seals an answer under keys that expire with the answer and with every token or entity that went into it. Undefined when one of these has
 * already ended.
 */
export async function sealAnswer(
  keys: AnswerKeys,
  request: AnsweredRequest,
  answer: Answer,
  factsOf: (ids: readonly string[]) => Promise<readonly (TokenFacts | undefined)[]>,
): Promise<StoredAnswer | undefined> {
  const { status, position } = answer;
  const stored = await storedTokens(answer.tokens ?? [], factsOf);
  if (!stored) return undefined;
  // A value that was made from a cvc expires with the cvc (interface.md, card data shape).
  const endsAt = new Date(Math.min(request.expiresAt.getTime(), ...stored.cvcEnds));
  const rest = await sealedRest(keys, request, answer, { tokens: stored.tokens, endsAt });
  if (rest !== undefined && !(await isWhole(answer, stored.tokens, factsOf))) {
    await keys.destroyKeys(request.tenantId, keyIdsOf(rest));
    return undefined;
  }
  return {
    version: stored.tokens.some(isSeen) ? 4 : answer.endsWith === undefined ? 2 : 3,
    ...(status === undefined ? {} : { status }),
    ...(position === undefined ? {} : { position }),
    tokens: stored.tokens,
    ...(rest === undefined ? {} : { rest }),
    endsAt: endsAt.toISOString(),
  };
}

/**
 * Whether every entity whose data may be in the answer still exists. Called after the keys are stored: a deletion before that did not
 * destroy these keys; a later deletion does.
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
  ('shares' in rest ? rest.shares : [rest]).map(({ sealed }) => keyIdOf(sealed));

/** Only says that the request succeeded: a repeat must not run it again, and cannot show its answer. */
export const notKept = (now: Date): StoredAnswer => ({ version: 2, tokens: [], endsAt: now.toISOString() });

async function openRest(
  keys: AnswerKeys,
  { tenantId, requestId }: Pick<AnsweredRequest, 'tenantId' | 'requestId'>,
  rest: SealedRest,
): Promise<Rest> {
  const entity = entityOfRequest(requestId);
  if ('sealed' in rest) {
    return (await keys.open<Rest>({ tenantId, entity, field }, rest.sealed)).expose();
  }
  const shares = await Promise.all(
    rest.shares.map(async (share) => {
      const place = { tenantId, entity: entityOfOwner(share), field };
      return (await keys.open<string>(place, share.sealed)).expose();
    }),
  );
  return JSON.parse(openWithShares(shares, `${tenantId} ${entity}`, rest.text)) as Rest;
}

/** @throws KeyDestroyedError for an answer of an older release, which is not shown any more */
export function requireCurrentVersion(requestId: string, stored: StoredAnswer): void {
  const isUnknown = !versions.includes(stored.version);
  const isUndecidable = stored.version < 4 && stored.tokens.some(isSeen);
  if (isUnknown || isUndecidable) throw new KeyDestroyedError(requestId);
}

/** @throws KeyDestroyedError when a part of the answer must not be shown any more */
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
    endsAtMs: Date.parse(stored.endsAt),
  };
  return { answer, tokens };
}

import type { Json, JsonObject, TokenContent } from '@token-vault/contracts';
import { KeyDestroyedError, secret, type KeyRing, type Secret, type SealedValue } from '@token-vault/crypto';

/** PCI DSS 3.3.1: sensitive authentication data is not kept. interface.md allows one hour. */
const cvcLifetimeMs = 60 * 60 * 1000;

const tokenEntity = (tokenId: string): string => `token:${tokenId}`;

export interface SealedData {
  readonly data: string;
  readonly cvc?: string;
  readonly cvc_expires_at?: string;
}

interface Place {
  readonly tenantId: string;
  readonly tokenId: string;
}

/** The data of a token as its owner gave it, with the cvc of a card. */
interface PlainToken {
  readonly type: string;
  readonly data: Secret<Json>;
}

interface ChangedToken extends PlainToken {
  readonly before: TokenContent;
  /** Whether the change holds a cvc. Otherwise the sealed one is kept, until its own end. */
  readonly isCvcGiven: boolean;
}

function isObject(data: Json): data is JsonObject {
  return typeof data === 'object' && data !== null && !Array.isArray(data);
}

/** The cvc of a card is sealed separately, under its own key (rules.md §3). */
function split(type: string, data: Json): { rest: Json; cvc: Json | undefined } {
  if (type !== 'card' || !isObject(data) || data.cvc === undefined) return { rest: data, cvc: undefined };
  const { cvc, ...rest } = data;
  return { rest, cvc };
}

/**
 * The data that ids, fingerprints and search indexes may be computed from. A card's cvc is left out: not even a keyed
 * hash of it may be kept longer than its hour (PCI DSS 3.3.1).
 */
export const lastingPart = (type: string, data: Secret<Json>): Secret<Json> =>
  secret(split(type, data.expose()).rest);

const context = ({ tenantId, tokenId }: Place, field: 'data' | 'cvc') => ({
  tenantId,
  entity: tokenEntity(tokenId),
  field,
});

async function sealCvc(keyRing: KeyRing, place: Place, cvc: Json | undefined, now: Date) {
  if (cvc === undefined) return {};
  const expiresAt = new Date(now.getTime() + cvcLifetimeMs);
  const sealed = await keyRing.sealNew(context(place, 'cvc'), secret(cvc), { destroyAfter: expiresAt });
  return { cvc: sealed, cvc_expires_at: expiresAt.toISOString() };
}

/** Seals the data of a new token. Resolves when the keys are stored, so that the event may be appended. */
export async function sealNewToken(
  keyRing: KeyRing,
  place: Place,
  { type, data: plain }: PlainToken,
  now: Date,
): Promise<SealedData> {
  const { rest, cvc } = split(type, plain.expose());
  const [data, sealedCvc] = await Promise.all([
    keyRing.sealNew(context(place, 'data'), secret(rest)),
    sealCvc(keyRing, place, cvc, now),
  ]);
  return { data, ...sealedCvc };
}

/** Seals changed data under the token's own key, so that destroying this key erases every version of the data. */
export async function resealToken(
  keyRing: KeyRing,
  place: Place,
  { type, data: plain, before, isCvcGiven }: ChangedToken,
  now: Date,
): Promise<SealedData> {
  const { rest, cvc } = split(type, plain.expose());
  const data = await keyRing.sealAgain(context(place, 'data'), before.data as SealedValue, secret(rest));
  if (isCvcGiven) return { data, ...(await sealCvc(keyRing, place, cvc, now)) };
  const { cvc: kept, cvc_expires_at: keptUntil } = before;
  if (cvc === undefined || kept === undefined || keptUntil === undefined) return { data };
  return { data, cvc: kept, cvc_expires_at: keptUntil };
}

/** The data as the owner gave it, with the cvc of a card while it may be shown. @throws KeyDestroyedError */
export async function openToken(
  keyRing: KeyRing,
  place: Place,
  content: TokenContent,
  now: Date,
): Promise<Secret<Json>> {
  const [data, cvc] = await Promise.all([
    keyRing.open(context(place, 'data'), content.data as SealedValue),
    openCvc(keyRing, place, content, now),
  ]);
  const rest = data.expose();
  return cvc && isObject(rest) ? secret({ ...rest, cvc: cvc.expose() }) : data;
}

/** The end of the cvc. Undefined when there is no cvc that may be shown. */
export const cvcEndOf = ({ cvc, cvc_expires_at: endsAt }: TokenContent, now: Date): string | undefined =>
  cvc === undefined || endsAt === undefined || Date.parse(endsAt) <= now.getTime() ? undefined : endsAt;

async function openCvc(
  keyRing: KeyRing,
  place: Place,
  content: TokenContent,
  now: Date,
): Promise<Secret<Json> | undefined> {
  const { cvc } = content;
  if (cvcEndOf(content, now) === undefined) return undefined;
  try {
    return await keyRing.open(context(place, 'cvc'), cvc as SealedValue);
  } catch (error) {
    if (error instanceof KeyDestroyedError) return undefined;
    throw error;
  }
}

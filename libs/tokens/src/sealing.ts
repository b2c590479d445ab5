import type { Json, TokenContent } from '@token-vault/contracts';
import { secret, type KeyRing, type SealedValue, type Secret } from '@token-vault/crypto';
import { contextOf, type TokenPlace } from './opening.ts';
import { split } from './sealed-apart.ts';

/** PCI DSS 3.3.1: sensitive authentication data is not kept. interface.md allows one hour. */
const cvcLifetimeMs = 60 * 60 * 1000;

export interface SealedData {
  readonly data: SealedValue;
  readonly cvc?: SealedValue;
  readonly cvc_expires_at?: string;
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

async function sealCvc(keyRing: KeyRing, place: TokenPlace, cvc: Json | undefined, now: Date) {
  if (cvc === undefined) return {};
  const expiresAt = new Date(now.getTime() + cvcLifetimeMs);
  const sealed = await keyRing.sealNew(contextOf(place, 'cvc'), secret(cvc), { destroyAfter: expiresAt });
  return { cvc: sealed, cvc_expires_at: expiresAt.toISOString() };
}

/** Seals the data of a new token. Resolves when the keys are stored, so that the event may be appended. */
export async function sealNewToken(
  keyRing: KeyRing,
  place: TokenPlace,
  { type, data: plain }: PlainToken,
  now: Date,
): Promise<SealedData> {
  const { rest, cvc } = split(type, plain.expose());
  const [data, sealedCvc] = await Promise.all([
    keyRing.sealNew(contextOf(place, 'data'), secret(rest)),
    sealCvc(keyRing, place, cvc, now),
  ]);
  return { data, ...sealedCvc };
}

/** Seals changed data under the token's own key, so that destroying this key erases every version of the data. */
export async function resealToken(
  keyRing: KeyRing,
  place: TokenPlace,
  { type, data: plain, before, isCvcGiven }: ChangedToken,
  now: Date,
): Promise<SealedData> {
  const { rest, cvc } = split(type, plain.expose());
  const data = await keyRing.sealAgain(contextOf(place, 'data'), before.data, secret(rest));
  if (isCvcGiven) return { data, ...(await sealCvc(keyRing, place, cvc, now)) };
  const { cvc: kept, cvc_expires_at: keptUntil } = before;
  if (cvc === undefined || kept === undefined || keptUntil === undefined) return { data };
  return { data, cvc: kept, cvc_expires_at: keptUntil };
}

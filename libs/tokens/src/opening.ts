import type { Json, TokenContent, Transform } from '@token-vault/contracts';
import { isErased, type KeyRing, type Secret } from '@token-vault/crypto';
import { mayRead } from '@token-vault/expressions';
import { join } from './sealed-apart.ts';

export interface TokenPlace {
  readonly tenantId: string;
  readonly tokenId: string;
}

type Opener = Pick<KeyRing, 'open'>;
type SealedData = Pick<TokenContent, 'data' | 'cvc' | 'cvc_expires_at'>;

/** Binds a sealed value to its token and field: elsewhere it does not open. */
export const contextOf = ({ tenantId, tokenId }: TokenPlace, field: 'data' | 'cvc') => ({
  tenantId,
  entity: `token:${tokenId}`,
  field,
});

/**
 * The data as the owner gave it, with the cvc of a card while it may be shown. @throws KeyDestroyedError,
 * TenantKeysMissingError
 */
export async function openToken(
  keyRing: Opener,
  place: TokenPlace,
  content: SealedData,
  now: Date,
): Promise<Secret<Json>> {
  const [rest, cvc] = await Promise.all([
    openLastingData(keyRing, place, content),
    openCvc(keyRing, place, content, now),
  ]);
  return join(rest, cvc);
}

/** The data without a card's cvc, which may not be kept (PCI DSS 3.3.1). @throws as `openToken` */
export const openLastingData = (
  keyRing: Opener,
  place: TokenPlace,
  { data }: Pick<TokenContent, 'data'>,
): Promise<Secret<Json>> => keyRing.open(contextOf(place, 'data'), data);

/**
 * The end of the cvc. Undefined when there is no cvc that may be shown: the hour counts by the clock, even when the
 * key is destroyed late (interface.md, card data shape).
 */
export const cvcEndOf = (
  { cvc, cvc_expires_at: endsAt }: Pick<TokenContent, 'cvc' | 'cvc_expires_at'>,
  now: Date,
): string | undefined =>
  cvc === undefined || endsAt === undefined || Date.parse(endsAt) <= now.getTime() ? undefined : endsAt;

/** Whether the token may hold its cvc as the transform shows it. */
export const mayHoldCvc = ({ mask }: Pick<TokenContent, 'mask'>, transform: Transform): boolean =>
  transform === 'reveal' || (transform === 'mask' && mask !== undefined && mayRead(mask, 'cvc'));

/** The end of the cvc that the token may hold as the transform shows it. */
export const shownCvcEndOf = (
  content: Pick<TokenContent, 'cvc' | 'cvc_expires_at' | 'mask'>,
  transform: Transform,
  now: Date,
): string | undefined => (mayHoldCvc(content, transform) ? cvcEndOf(content, now) : undefined);

async function openCvc(
  keyRing: Opener,
  place: TokenPlace,
  content: SealedData,
  now: Date,
): Promise<Secret<Json> | undefined> {
  const { cvc } = content;
  if (cvc === undefined || cvcEndOf(content, now) === undefined) return undefined;
  try {
    return await keyRing.open(contextOf(place, 'cvc'), cvc);
  } catch (error) {
    if (isErased(error)) return undefined;
    throw error;
  }
}

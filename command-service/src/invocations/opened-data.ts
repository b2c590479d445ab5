import { holderOf } from '@token-vault/access';
import { threadShares } from '@token-vault/batching';
import { firstCvcEnd, ValidationError, type Json } from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { DetokenizedToken } from '@token-vault/expressions';
import type { RequestContext } from '@token-vault/operations';
import { cvcEndOf, openToken, presentToken, type TokenDetails } from '@token-vault/tokens';
import { dataBytesOf, missingMessage } from './references.ts';

/** Tokens that are being opened. */
export interface OpenedData {
  /** The end of the first cvc among the tokens. Unset when no token has one. */
  readonly cvcEndsAt?: string | undefined;
  readonly tokens: Promise<ReadonlyMap<string, DetokenizedToken>>;
}

export const missing = (tokenId: string, field = 'args'): ValidationError =>
  ValidationError.of(field, missingMessage(tokenId));

async function openOne(
  keyRing: KeyRing,
  details: TokenDetails,
  context: RequestContext,
  field: string | undefined,
): Promise<DetokenizedToken> {
  const tenantId = context.principal.tenant.id;
  try {
    const opened = await openToken(keyRing, { tenantId, tokenId: details.id }, details.content, context.now);
    let whole: Json | undefined;
    return {
      data: opened.expose(),
      // Made once, when an expression asks for it. Converted by JSON, so that undefined fields are absent.
      get token() {
        return (whole ??= JSON.parse(JSON.stringify(presentToken(tenantId, details, opened))) as Json);
      },
    };
  } catch (error) {
    if (error instanceof KeyDestroyedError) throw missing(details.id, field);
    throw error;
  }
}

/** Opening smaller data takes less than a millisecond. */
const largeBytes = 16 * 1024;

/** One after the other, within the tenant's share of the thread: a request of 5 KB may name data of 4 MiB. */
async function openInTurn<Entry>(
  { principal, signal }: RequestContext,
  large: readonly TokenDetails[],
  open: (details: TokenDetails) => Promise<Entry>,
): Promise<Entry[]> {
  if (large.length === 0) return [];
  const entries: Entry[] = [];
  const turn = await threadShares.begin(holderOf(principal), signal);
  try {
    for (const details of large) {
      entries.push(await open(details));
      if (turn.isOver) await turn.next();
    }
  } finally {
    turn.end();
  }
  return entries;
}

/** Tokens that the caller may use. */
export function openAll(
  keyRing: KeyRing,
  found: readonly TokenDetails[],
  context: RequestContext,
  fields?: ReadonlyMap<string, string>,
): OpenedData {
  if (found.length === 0) return { tokens: Promise.resolve(new Map()) };
  const open = async (details: TokenDetails) =>
    [details.id, await openOne(keyRing, details, context, fields?.get(details.id))] as const;
  const isLarge = (details: TokenDetails) => dataBytesOf(details) > largeBytes;
  const opened = Promise.all([
    Promise.all(found.filter((details) => !isLarge(details)).map(open)),
    openInTurn(context, found.filter(isLarge), open),
  ]).then((entries) => new Map(entries.flat()));
  opened.catch(() => undefined);
  const cvcEndsAt = firstCvcEnd(found.map(({ content }) => cvcEndOf(content, context.now)));
  return { tokens: opened, cvcEndsAt };
}

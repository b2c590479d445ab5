import { holderOf } from '@token-vault/access';
import { largeBytes, ThreadShares } from '@token-vault/batching';
import {
  firstCvcEnd,
  ValidationError,
  type DomainError,
  type Json,
  type VaultEvent,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { DetokenizedToken } from '@token-vault/expressions';
import type { RequestContext } from '@token-vault/operations';
import { cvcEndOf, openToken, presentToken, type TokenDetails } from '@token-vault/tokens';
import { bytesOfToken, TokensTurn } from '../tokens/large-tokens.ts';
import { openPlaces } from './open-places.ts';
import { missingMessage } from './references.ts';

/** The data of tokens, by their ids. */
export type OpenedData = ReadonlyMap<string, DetokenizedToken>;

/** Tokens that are used. The opened data itself is not here: it must not live as long as the exchange or the run does. */
export interface UsedTokens<Made> {
  /** The record of the use. */
  readonly use: readonly VaultEvent[];
  /** `created_at` of each token, by id. */
  readonly madeAt: ReadonlyMap<string, string>;
  /** The end of the first cvc among the tokens. Unset when no token has one. */
  readonly cvcEndsAt?: string | undefined;
  /** What was made of the data. Never rejects before it is awaited. */
  readonly made: Promise<Made>;
}

interface Use<Made> {
  readonly context: RequestContext;
  /** Reads the tokens. Called again when the request had to wait for its place. */
  readonly find: () => Promise<readonly TokenDetails[]>;
  /** @throws DomainError; a refusal that it gives becomes that of `made` */
  readonly decide: (found: readonly TokenDetails[]) => Pick<UsedTokens<Made>, 'use'> & {
    readonly refusal?: DomainError | undefined;
  };
  /** Where each token is named. */
  readonly fields?: ReadonlyMap<string, string>;
  readonly make: (tokens: OpenedData) => Promise<Made>;
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

const bytesOf = (found: readonly TokenDetails[]): number =>
  found.reduce((sum, details) => sum + bytesOfToken(details), 0);

/** Not `threadShares`: an application may rest there for many seconds, and would hold its place here meanwhile. */
const shares = new ThreadShares();

/** One after the other, within the tenant's share of the thread: a request of 5 KB may name data of 4 MiB. */
async function openInTurn<Entry>(
  { principal, signal }: RequestContext,
  found: readonly TokenDetails[],
  open: (details: TokenDetails) => Promise<Entry>,
): Promise<Entry[]> {
  const entries: Entry[] = [];
  const turn = await shares.begin(holderOf(principal), signal);
  try {
    for (const details of found) {
      entries.push(await open(details));
      if (turn.isOver) await turn.next();
    }
  } finally {
    turn.end();
  }
  return entries;
}

async function openAll(
  keyRing: KeyRing,
  found: readonly TokenDetails[],
  { context, fields }: Pick<Use<unknown>, 'context' | 'fields'>,
): Promise<OpenedData> {
  const open = async (details: TokenDetails) =>
    [details.id, await openOne(keyRing, details, context, fields?.get(details.id))] as const;
  const isSmall = bytesOf(found) < largeBytes;
  return new Map(isSmall ? await Promise.all(found.map(open)) : await openInTurn(context, found, open));
}

/** Opens the tokens that a request may use. It has its place, where they are large together, until their data has become what `make` makes of it. */
export async function useTokens<Made>(keyRing: KeyRing, asked: Use<Made>): Promise<UsedTokens<Made>> {
  const { context, find, decide, make } = asked;
  const turn = new TokensTurn(context, openPlaces);
  try {
    const found = await turn.read(find, bytesOf);
    const { refusal, use } = decide(found);
    const opened = refusal ? Promise.reject(refusal) : openAll(keyRing, found, asked);
    const made = opened.then(make).finally(() => turn.end());
    made.catch(() => undefined);
    return {
      use,
      made,
      madeAt: new Map(found.map(({ id, createdAt }) => [id, createdAt])),
      cvcEndsAt: firstCvcEnd(refusal ? [] : found.map(({ content }) => cvcEndOf(content, context.now))),
    };
  } catch (error) {
    turn.end();
    throw error;
  }
}

import type { Principal } from '@token-vault/access';
import {
  TokensRead,
  type Json,
  type JsonObject,
  type OutcomeContent,
  type Token,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { AuditTrail, Path, RequestContext, Showing } from '@token-vault/operations';
import { presentToken, type TokenDetails } from '@token-vault/tokens';
import { createTokenFinder, type TokenFinderDependencies } from './find.ts';
import { presentAs, type PresentingDependencies } from './presented.ts';
import { readingOf, shownTo, withoutUnreadable, type Shown } from './shown.ts';
import { isExpired } from './state.ts';

/** A token of the output of a reactor, as the run was answered. */
interface OutputToken {
  readonly id: string;
  /** Unset when the run does not tell: of a duplicate, beyond the tokens that are named. */
  readonly createdAt: string | undefined;
  readonly at: Path;
  readonly answered: JsonObject;
  /** False of a duplicate, of which the answer has some fields. */
  readonly isWhole: boolean;
  /** How the caller of the run was shown it, by its right to read it. Unset when it was told that the token is there, and no more. */
  readonly shown: Showing | undefined;
}

type Output = Pick<OutcomeContent, 'type' | 'value' | 'seen'>;

/** An output shows masked data at most. */
const showingOf = (answered: JsonObject): Showing | undefined =>
  'containers' in answered
    ? { permission: 'token:read', transform: 'data' in answered ? 'mask' : 'redact' }
    : undefined;

/**
 * Finds the tokens in the result of a run, which are in its output alone. The search ends at the greatest depth of an answer. A text that is
 * no token was made one, so code cannot put in an object that looks like a token.
 */
export function outputTokensOf({ type, value, seen }: Output, tenantId: string): readonly OutputToken[] {
  if (type !== 'ReactorSucceeded') return [];
  const madeAt = new Map(seen.map(({ id, createdAt }) => [id, createdAt]));
  const found = (part: Json | undefined, at: Path): readonly OutputToken[] => {
    if (part === null || typeof part !== 'object') return [];
    if (Array.isArray(part)) return part.flatMap((item, index) => found(item, [...at, index]));
    const { id, type: typeOf, tenant_id: ofTenant, created_at: createdAt } = part;
    if (typeof id !== 'string' || typeof typeOf !== 'string' || ofTenant !== tenantId)
      return Object.entries(part).flatMap(([name, item]) => found(item, [...at, name]));
    const isWhole = typeof createdAt === 'string';
    const token = { id, at, answered: part, isWhole, shown: showingOf(part) };
    return [{ ...token, createdAt: isWhole ? createdAt : madeAt.get(id) }];
  };
  return found((value as { tokens?: Json } | null)?.tokens, ['tokens']);
}

/** How the caller of a run may see a token of its output: masked at most, by its right to read it (ADR 18). */
export const shownOutput = (
  principal: Principal,
  { id, content }: Pick<TokenDetails, 'id' | 'content'>,
): Shown => shownTo(principal, { id, containers: content.containers }, 'mask');

/** The result of a run at this moment. */
interface PresentResult {
  /**
   * For each token of the output what the result says of it, with its data as it is sealed. Equal in a later decision when the result would
   * show the token so then, too.
   */
  readonly shown: readonly unknown[];
  /** With the tokens of the output in their present state. */
  value(): Promise<Json>;
  /** Records that the tokens are read. Must be durable before the result is shown. */
  record(): Promise<void>;
}

/**
 * Reads the tokens of the output of a run. Gives the function that decides how the caller of the run may be shown them, as in the repeat of a
 * synchronous run. But of a token that is gone, or is withheld, only its identity is shown: the result has other parts, which the receiver may
 * not have got yet.
 */
export type DecisionOnOutputs = (
  outcome: Output,
  context: RequestContext,
) => Promise<(present: RequestContext, isWithheld: (index: number) => boolean) => PresentResult>;

export interface OutputsDependencies extends TokenFinderDependencies, PresentingDependencies {
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
}

interface Decided {
  readonly token: OutputToken;
  /** Unset when the token is withheld or gone, or another one has its id. */
  readonly now: { readonly details: TokenDetails; readonly shown: Shown } | undefined;
}

const identity = ['id', 'type', 'tenant_id', 'created_by', 'created_at'];

const withFields = (token: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(names.flatMap((name) => (name in token ? [[name, token[name] ?? null]] : [])));

/** The part of a result that is made of a token which the receiver may read. */
const fieldsSent = ({ answered, isWhole }: OutputToken, token: Token): JsonObject => {
  const sent = JSON.parse(JSON.stringify(token)) as JsonObject;
  return isWhole ? sent : withFields(sent, Object.keys(answered));
};

/** Differs when the body of the result would. Of a token by its identity alone, no change does. */
function saysOf({ token, now }: Decided, tenantId: string): unknown {
  if (!now?.shown.isReadable) return undefined;
  const { details, shown } = now;
  const fields = fieldsSent(token, withoutUnreadable(presentToken(tenantId, details, undefined), shown));
  const data = token.isWhole ? details.content.data : undefined;
  return { fields, data, transform: shown.transform };
}

async function presentOutput(
  dependencies: PresentingDependencies,
  { token, now }: Decided,
  context: RequestContext,
): Promise<JsonObject> {
  if (!now?.shown.isReadable) return withFields(token.answered, identity);
  try {
    return fieldsSent(token, await presentAs(dependencies, now.details, now.shown, context));
  } catch (error) {
    if (error instanceof KeyDestroyedError) return withFields(token.answered, identity);
    throw error;
  }
}

/** The value with other objects in the places of these. */
function replaced(value: Json, by: ReadonlyMap<Json, Json>): Json {
  const other = by.get(value);
  if (other !== undefined) return other;
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((item) => replaced(item, by));
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, replaced(item, by)]));
}

/** So many tokens are looked for at once: the others of the vault wait for the store meanwhile. */
const foundAtOnce = 32;

export function createDecisionOnOutputs(dependencies: OutputsDependencies): DecisionOnOutputs {
  const { audit, clock } = dependencies;
  const find = createTokenFinder(dependencies);

  async function findAll(tokens: readonly OutputToken[], context: RequestContext) {
    const found: (TokenDetails | undefined)[] = [];
    for (let from = 0; from < tokens.length; from += foundAtOnce) {
      const some = tokens.slice(from, from + foundAtOnce);
      found.push(...(await Promise.all(some.map(({ id }) => find(id, context)))));
    }
    return found;
  }

  return async (outcome, context) => {
    const tenantId = context.principal.tenant.id;
    const tokens = outputTokensOf(outcome, tenantId);
    const found = await findAll(tokens, context);
    return (present, isWithheld) => {
      const decided = tokens.map((token, index): Decided => {
        const details = isWithheld(index) ? undefined : found[index];
        const isSame = details?.createdAt === token.createdAt;
        if (!details || !isSame || isExpired(details, clock.now())) return { token, now: undefined };
        return { token, now: { details, shown: shownOutput(present.principal, details) } };
      });
      return {
        shown: decided.map((each) => saysOf(each, tenantId)),
        async value() {
          const put = decided.map(
            async (each) => [each.token.answered, await presentOutput(dependencies, each, present)] as const,
          );
          return replaced(outcome.value as Json, new Map(await Promise.all(put)));
        },
        async record() {
          const read = decided.flatMap(({ now }) => (now ? [readingOf(now.details, now.shown)] : []));
          if (read.length > 0) await audit.record(present, TokensRead, { operation: 'read', tokens: read });
        },
      };
    };
  };
}

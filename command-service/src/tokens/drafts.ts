import { decideTokenAccess } from '@token-vault/access';
import {
  entityTypeOfToken,
  ForbiddenError,
  ValidationError,
  tokenId as tokenIdSchema,
  type CreateTokenBody,
  type Json,
  type TokenType,
  type Transform,
} from '@token-vault/contracts';
import { secret, type Secret } from '@token-vault/crypto';
import type { GroupMember } from '@token-vault/event-store';
import { containsExpression, evaluateId } from '@token-vault/expressions';
import type { RequestContext } from '@token-vault/operations';
import { lastingPart, typeDefaults, validateData } from '@token-vault/tokens';
import { expressionsOf, type CommandDependencies } from '../dependencies.ts';
import { deriveValues, type DerivedValues } from './derived-values.ts';
import { refuseBadExpressions, refuseBadMask } from './expression-errors.ts';
import { parseExpiry } from './expiry.ts';
import { shownTo } from './shown.ts';

export type DraftDependencies = Pick<CommandDependencies, 'expressions' | 'keyRing'>;

/** How an answer shows a new token. */
interface ShownDraft {
  /** The transform of the data. */
  readonly transform: Transform;
  /** Whether the answer has the content of the token. The caller of a reactor may not know it: the code may have put data into any field. */
  readonly isReadable: boolean;
}

/** A token that is validated and authorised, but not sealed yet. */
export interface TokenDraft {
  readonly type: TokenType;
  readonly data: Secret<Json>;
  readonly mask: Json | undefined;
  /** The masked data, when the request brought the mask. */
  readonly masked: Secret<Json> | undefined;
  readonly containers: string[];
  readonly metadata: Record<string, string> | undefined;
  readonly derived: DerivedValues;
  readonly deduplicate: boolean;
  readonly deduplicateToken: boolean | undefined;
  readonly expiresAt: string | undefined;
  /** How the answer shows the token with this id. @throws ForbiddenError */
  readonly shownAs: (id: string) => ShownDraft;
  /**
   * The next candidate for the id. After `maxDraws` collisions of an expression it is a UUID. @throws
   * ValidationError, ForbiddenError
   */
  readonly nextId: () => Promise<string>;
  /** `literal`: a taken id gives 409. `drawn`: when the id is taken, another is drawn. */
  readonly idKind: 'literal' | 'drawn';
  /** Of the group whose appends are stored together. */
  readonly member?: GroupMember | undefined;
}

/** `type` is that of a token that was found. The log then names the token with the refusal. @throws ForbiddenError */
export function requireAccess(
  context: RequestContext,
  permission: 'token:create' | 'token:update' | 'token:delete',
  token: { id: string; containers: readonly string[]; type?: TokenType },
): Transform {
  const { id, type } = token;
  const access = decideTokenAccess(context.principal, permission, token);
  if (access.isGranted) return access.transform;
  const found = type === undefined ? undefined : { type: entityTypeOfToken(type), id };
  throw new ForbiddenError(`No access rule grants ${permission} for this container.`, found);
}

/** How the answer shows a new token. The output of a reactor is shown by the rights of the caller of the run (ADR 18). @throws ForbiddenError */
function shownToMaker(
  context: RequestContext,
  token: { readonly id: string; readonly containers: readonly string[] },
): ShownDraft {
  const transform = requireAccess(context, 'token:create', token);
  const { reader } = context.principal;
  return reader === undefined ? { transform, isReadable: true } : shownTo(reader, token, transform);
}

function checkedId(id: string): string {
  const result = tokenIdSchema.safeParse(id);
  if (!result.success) throw new ValidationError({ id: result.error.issues.map((issue) => issue.message) });
  return result.data;
}

/** rules.md §4: after so many collisions of a drawn id a UUID is used. */
const maxDraws = 10;

/**
 * Candidates for the id. The rights of the caller are checked for each. The first is drawn at once, so that a refusal
 * comes before any write.
 */
async function candidateIds(
  given: string | undefined,
  evaluate: (expression: string) => Promise<string>,
  context: RequestContext,
  containers: string[],
) {
  const isExpression = given !== undefined && containsExpression(given);
  const idKind = given === undefined || isExpression ? 'drawn' : 'literal';
  let draws = 0;
  const draw = async (): Promise<string> => {
    draws += 1;
    if (given === undefined || (isExpression && draws > maxDraws)) return context.newEntityId();
    if (!isExpression) return checkedId(given);
    return checkedId(await refuseBadExpressions(() => evaluate(given)));
  };
  const shownAs = (id: string) => shownToMaker(context, { id, containers });
  const first = await draw();
  shownAs(first);
  let next: string | undefined = first;
  const nextId = async (): Promise<string> => {
    const id = next ?? (await draw());
    next = undefined;
    if (id !== first) requireAccess(context, 'token:create', { id, containers });
    return id;
  };
  return { idKind, nextId, shownAs } as const;
}

/** The expression of a token's fingerprint, undefined when it gets none (rules.md §3). */
export function fingerprintExpressionFor(
  context: RequestContext,
  type: TokenType,
  given: string | undefined,
  deduplicate: boolean,
): string | undefined {
  const isWanted = deduplicate || context.principal.tenant.settings.fingerprint_tokens === 'true';
  return given ?? (isWanted ? typeDefaults[type].fingerprintExpression : undefined);
}

/**
 * Whether a token without a value to fingerprint is refused. It is not when only a setting of the tenant asks for the
 * fingerprint.
 */
export function isFingerprintAsked(
  type: TokenType,
  kept: string | undefined,
  asked: {
    readonly fingerprint_expression?: string | null | undefined;
    readonly deduplicate_token?: boolean | null | undefined;
  },
): boolean {
  const isOwn = kept !== undefined && kept !== typeDefaults[type].fingerprintExpression;
  return isOwn || typeof asked.fingerprint_expression === 'string' || asked.deduplicate_token === true;
}

/** The request decides; when it says nothing, the setting of the tenant does (rules.md §5). */
export function isDeduplicated(context: RequestContext, given: boolean | undefined): boolean {
  return given ?? context.principal.tenant.settings.deduplicate_tokens === 'true';
}

/**
 * Validates, authorises and derives the values of a new token, the cheapest step first.
 * @throws ValidationError, ForbiddenError
 */
export async function draftToken(
  dependencies: DraftDependencies,
  body: CreateTokenBody,
  context: RequestContext,
): Promise<TokenDraft> {
  const { type } = body;
  const defaults = typeDefaults[type];
  const containers = body.containers ?? [defaults.container];
  const data = secret(validateData(type, body.data.expose()));
  // Null comes only from the command line, for tokens whose mask was removed. HTTP treats null as unset.
  const mask = body.mask === undefined ? defaults.mask : (body.mask ?? undefined);
  const expressions = expressionsOf(dependencies, context);
  const masked = await refuseBadMask(expressions, body.mask ?? undefined, data);
  const expiresAt = body.expires_at === undefined ? undefined : parseExpiry(body.expires_at, context.now);
  const lasting = lastingPart(type, data);
  const evaluate = (source: string) => evaluateId(expressions, source, lasting.expose());
  const candidates = await candidateIds(body.id, evaluate, context, containers);
  const deduplicate = isDeduplicated(context, body.deduplicate_token);
  const hashes = await dependencies.keyRing.hashes(context.principal.tenant.id);
  const derived = await deriveValues(expressions, hashes, {
    type,
    data: lasting,
    metadata: body.metadata,
    searchIndexes: body.search_indexes ?? defaults.searchIndexes,
    fingerprintExpression: fingerprintExpressionFor(context, type, body.fingerprint_expression, deduplicate),
    isFingerprintAsked: isFingerprintAsked(type, undefined, body),
  });
  return {
    type,
    data,
    mask,
    masked,
    containers,
    metadata: body.metadata,
    derived,
    deduplicate,
    deduplicateToken: body.deduplicate_token,
    expiresAt,
    ...candidates,
  };
}

import {
  ConflictError,
  NotFoundError,
  streams,
  TokensRead,
  ValidationError,
  type Json,
  type PatchTokenBody,
  type Token,
  type TokenContent,
} from '@token-vault/contracts';
import { KeyDestroyedError, secret, type Secret } from '@token-vault/crypto';
import type { Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/service-kit';
import { expectedAt, retryOnConflict } from '../aggregates/decider.ts';
import { requirePresent, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { deriveValues, type DerivedValues } from './derived-values.ts';
import { fingerprintExpressionFor, isDeduplicated, requireAccess } from './drafts.ts';
import type { TokenErasure } from './erasure.ts';
import { ExistingTokens } from './existing.ts';
import { refuseBadMask } from './expression-errors.ts';
import { parseExpiry } from './expiry.ts';
import { readTokenHistory } from './history.ts';
import { mergePatch } from './merge-patch.ts';
import { presentToken, transformData } from './present.ts';
import { openToken, resealToken } from './sealing.ts';
import { evolve, hasFingerprint, type TokenDetails } from './state.ts';
import { typeDefaults } from './types/defaults.ts';
import { validateData } from './types/validate-data.ts';

export interface UpdatedToken {
  readonly token: Token;
  readonly position: Position | undefined;
}

/** Everything the patch leads to, before anything is sealed. */
interface Change {
  readonly data: Secret<Json>;
  readonly rest: Omit<TokenContent, 'data' | 'cvc' | 'cvc_expires_at'>;
  readonly deduplicate: boolean;
}

function mergeMetadata(
  before: TokenContent['metadata'],
  patch: PatchTokenBody['metadata'],
): TokenContent['metadata'] {
  if (patch === undefined) return before;
  if (patch === null) return undefined;
  const merged = mergePatch(before, patch) as Record<string, string>;
  if (Object.keys(merged).length > 50) throw ValidationError.of('metadata', 'must have at most 50 keys');
  return merged;
}

function mergeMask(before: Json | undefined, patch: Json | undefined): Json | undefined {
  if (patch === undefined) return before;
  const merged = mergePatch(before, patch);
  return merged ?? undefined;
}

/** Null takes the field back, absent leaves it. */
const replace = <Value>(before: Value | undefined, given: Value | null | undefined): Value | undefined =>
  given === undefined ? before : (given ?? undefined);

function mergeData(details: TokenDetails, before: Secret<Json>, patch: Json | undefined): Secret<Json> {
  if (patch === undefined) return before;
  if (patch === null) throw ValidationError.of('data', 'cannot be removed');
  return secret(validateData(details.type, mergePatch(before.expose(), patch)));
}

const isCvcIn = (patch: Json | undefined): boolean =>
  typeof patch === 'object' && patch !== null && !Array.isArray(patch) && Object.hasOwn(patch, 'cvc');

/** Updates tokens by JSON merge patch (interface.md, PATCH /tokens/{id}; decisions.md §5). */
export class TokenUpdate {
  readonly #dependencies: TokenDependencies;
  readonly #erasure: TokenErasure;
  readonly #existing: ExistingTokens;

  constructor(dependencies: TokenDependencies, erasure: TokenErasure) {
    this.#dependencies = dependencies;
    this.#erasure = erasure;
    this.#existing = new ExistingTokens(dependencies);
  }

  /** @throws NotFoundError, ForbiddenError, ValidationError, ConflictError */
  update(id: string, patch: PatchTokenBody, context: RequestContext): Promise<UpdatedToken> {
    return retryOnConflict(() => this.#attempt(id, patch, context));
  }

  async #attempt(id: string, patch: PatchTokenBody, context: RequestContext): Promise<UpdatedToken> {
    const { store, outcomes, enlistment } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    const history = await readTokenHistory(store, outcomes, tenantId, id, context.transactionId);
    const details = requirePresent(history.state, context.now);
    if (history.lockedBy !== undefined) {
      throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
    }
    const { containers } = details.content;
    requireAccess(context, 'token:update', { id, containers });
    const target =
      patch.containers === null ? [typeDefaults[details.type].container] : (patch.containers ?? containers);
    const transform = requireAccess(context, 'token:update', { id, containers: target });

    const change = await this.#change(details, patch, target, context);
    const duplicate = await this.#findDuplicate(details, change, context);
    if (duplicate) return { token: await this.#existing.show(context, duplicate), position: undefined };

    await enlistment.begin(context, id);
    const sealed = await this.#reseal(details, change, patch, context);
    const command = { kind: 'update', content: { ...sealed, ...change.rest }, now: context.now } as const;
    const events = tokenDecider.decide(history.state, command).map((each) => context.event(each, each.data));
    const { position } = await store.append(
      streams.token(tenantId, id),
      events,
      expectedAt(history.revision),
    );
    await enlistment.confirm(context, position);
    if (context.transactionId === undefined) await this.#erasure.eraseUnneeded(tenantId, id);

    const after = events.reduce(
      (state, event) => evolve(state, { ...event, stream: '', revision: 0, position }),
      history.state,
    );
    const updated = requirePresent(after, context.now);
    if (transform !== 'redact') {
      const tokens = [{ token_id: id, token_type: details.type, transform }];
      await this.#dependencies.audit.record(context, TokensRead, { operation: 'read', tokens });
    }
    const shown = transformData(transform, change.data, change.rest.mask);
    return { token: presentToken(tenantId, updated, shown), position };
  }

  async #change(
    details: TokenDetails,
    patch: PatchTokenBody,
    containers: string[],
    context: RequestContext,
  ): Promise<Change> {
    const { content, type } = details;
    const data = mergeData(details, await this.#open(details, context), patch.data);
    const mask = mergeMask(content.mask, patch.mask);
    if (patch.mask !== undefined || patch.data !== undefined) refuseBadMask(mask, data);
    const metadata = mergeMetadata(content.metadata, patch.metadata);
    const deduplicateToken = replace(content.deduplicate_token, patch.deduplicate_token);
    const deduplicate = isDeduplicated(context, deduplicateToken);
    const expiresAt =
      typeof patch.expires_at === 'string'
        ? parseExpiry(patch.expires_at, context.now)
        : replace(content.expires_at, patch.expires_at);
    const derived: DerivedValues = deriveValues(
      await this.#dependencies.keyRing.hashes(context.principal.tenant.id),
      {
        type,
        data,
        metadata,
        searchIndexes: replace(content.search_indexes, patch.search_indexes) ?? [],
        fingerprintExpression: fingerprintExpressionFor(
          context,
          type,
          replace(content.fingerprint_expression, patch.fingerprint_expression),
          deduplicate,
        ),
      },
    );
    const rest = {
      ...(mask === undefined ? {} : { mask }),
      containers,
      ...(metadata === undefined ? {} : { metadata }),
      ...derived,
      ...(deduplicateToken === undefined ? {} : { deduplicate_token: deduplicateToken }),
      ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    };
    return { data, rest, deduplicate };
  }

  async #open(details: TokenDetails, context: RequestContext): Promise<Secret<Json>> {
    const place = { tenantId: context.principal.tenant.id, tokenId: details.id };
    try {
      return await openToken(this.#dependencies.keyRing, place, details.content, context.now);
    } catch (error) {
      if (error instanceof KeyDestroyedError) throw new NotFoundError('The token');
      throw error;
    }
  }

  #reseal(details: TokenDetails, change: Change, patch: PatchTokenBody, context: RequestContext) {
    const { content } = details;
    if (patch.data === undefined) {
      const { data, cvc, cvc_expires_at: keptUntil } = content;
      return cvc === undefined || keptUntil === undefined
        ? { data }
        : { data, cvc, cvc_expires_at: keptUntil };
    }
    const place = { tenantId: context.principal.tenant.id, tokenId: details.id };
    const isCvcGiven = isCvcIn(patch.data);
    return resealToken(
      this.#dependencies.keyRing,
      place,
      details.type,
      change.data,
      context.now,
      content,
      isCvcGiven,
    );
  }

  /** Another live token of equal content when this one must not become its double; otherwise the fingerprint is claimed. */
  async #findDuplicate(
    details: TokenDetails,
    change: Change,
    context: RequestContext,
  ): Promise<TokenDetails | undefined> {
    const { fingerprint } = change.rest;
    if (fingerprint === undefined || fingerprint === details.content.fingerprint) return undefined;
    const { claims, store, outcomes } = this.#dependencies;
    if (!change.deduplicate) {
      await claims.claim(context, fingerprint, details.id);
      return undefined;
    }
    const tenantId = context.principal.tenant.id;
    const { state: claimants, revision } = await claims.read(tenantId, fingerprint);
    for (const id of claimants) {
      if (id === details.id) continue;
      const { state } = await readTokenHistory(store, outcomes, tenantId, id, context.transactionId);
      if (hasFingerprint(state, fingerprint, context.now)) return state.details;
    }
    // Whoever claims between the look and this claim makes it fail, and the update looks again.
    await claims.claim(context, fingerprint, details.id, revision);
    return undefined;
  }
}

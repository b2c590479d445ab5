import { shownBy } from '@token-vault/access';
import {
  ConflictError,
  NotFoundError,
  streams,
  type PatchTokenBody,
  type Transform,
} from '@token-vault/contracts';
import { KeyDestroyedError } from '@token-vault/crypto';
import { startPosition, type Position } from '@token-vault/event-store';
import { bodyTurns } from '@token-vault/http';
import { DataDependentError, type RequestContext } from '@token-vault/operations';
import {
  presentToken,
  resealToken,
  shownCvcEndOf,
  typeDefaults,
  type TokenDetails,
} from '@token-vault/tokens';
import { expressionsOf } from '../dependencies.ts';
import { attemptsOf, type Attempts } from '../aggregates/attempts.ts';
import { keyIdsOf, requirePresent, tokenDecider } from './decider.ts';
import type { TokenDependencies } from './dependencies.ts';
import { requireAccess } from './drafts.ts';
import { Duplicates, type Clearance } from './duplicates.ts';
import { loadToken, writeToken, type TokenBefore } from './change.ts';
import { ExistingTokens } from './existing.ts';
import { refuseUseOfHiddenData } from './hidden-data.ts';
import { bytesBesidePatch, TokensTurn } from './large-tokens.ts';
import { isDataHidden, type PatchAttempt } from './patch-attempt.ts';
import { presentAs } from './presented.ts';
import { effectOfPatch } from './patch-effect.ts';
import { changeOf, type Change } from './patched.ts';
import type { TokenHistory } from './history.ts';
import { isCvcIn } from './patched-fields.ts';
import { requireSignedToken } from './signed.ts';
import { recordShown, shownTo, withoutUnreadable } from './shown.ts';
import { evolve } from './state.ts';
import { failureOfPatch, toldByDuplicate, toldByRepeat, toldBySuccess } from './told.ts';
import { changesNothing } from './unchanged.ts';
import { repeated, type UpdatedToken } from './updated.ts';
import { transformWrittenData } from './written-data.ts';

/** A write, and how its answer shows the token. */
interface Written {
  readonly change: Change;
  readonly toCaller: ReturnType<typeof shownTo>;
  readonly shown: Transform;
  readonly told: UpdatedToken['told'];
}

/** Updates tokens by JSON merge patch (interface.md, PATCH /tokens/{id}; rules.md §5). */
export class TokenUpdate {
  readonly #dependencies: TokenDependencies;
  readonly #existing: ExistingTokens;
  readonly #duplicates: Duplicates;

  constructor(dependencies: TokenDependencies) {
    this.#dependencies = dependencies;
    this.#existing = new ExistingTokens(dependencies);
    this.#duplicates = new Duplicates(dependencies);
  }

  /** @throws NotFoundError, ForbiddenError, ValidationError, ConflictError */
  async update(id: string, body: PatchTokenBody, context: RequestContext): Promise<UpdatedToken> {
    const turn = new TokensTurn(context, bodyTurns);
    try {
      return await this.#write(id, body, context, turn);
    } catch (error) {
      // The token was deleted during the update.
      if (error instanceof KeyDestroyedError) throw new NotFoundError('The token');
      throw error;
    } finally {
      turn.end();
    }
  }

  async #write(
    id: string,
    patch: PatchTokenBody,
    caller: RequestContext,
    turn: TokensTurn,
  ): Promise<UpdatedToken> {
    const dependencies = this.#dependencies;
    const { enlistment, erasure } = dependencies;
    const tenantId = caller.principal.tenant.id;
    const attempts = attemptsOf(caller);
    const { before, decided, events, position } = await writeToken(dependencies, {
      tenantId,
      write: 'update',
      attempts,
      load: () =>
        turn.read(
          async () => {
            // Conflicts and turns may hold the patch up for seconds, so each attempt is decided by the present rights of the caller.
            const context = (await caller.renewed()) ?? caller;
            await enlistment.check(context);
            return loadToken(dependencies, id, context, context);
          },
          ({ state }) => bytesBesidePatch(state, patch),
        ),
      decide: (token) => this.#decide(patch, token, attempts),
    });
    if (decided.answer) return decided.answer;
    const { context } = before;
    if (context.transactionId === undefined) await erasure.carryOut(tenantId, id, decided.facts);
    const after = events.reduce(
      (state, event) => evolve(state, { ...event, stream: '', revision: 0, position: startPosition }),
      before.state,
    );
    const updated = requirePresent(after, context.now);
    return this.#answer(decided, updated, context, position);
  }

  /** Gives the answer at once when there is nothing to write. */
  async #decide(patch: PatchTokenBody, before: TokenBefore & TokenHistory, attempts: Attempts) {
    const { context, tokenId: id, state } = before;
    const { store, keyRing } = this.#dependencies;
    const { tenant } = context.principal;
    const details = requirePresent(state, context.now);
    await requireSignedToken(keyRing, tenant, details);
    const stored = await attempts.stored(store, streams.token(tenant.id, id));
    if (stored) {
      const answer = repeated(tenant.id, details, stored.position, context.now);
      return { facts: [], answer: { ...answer, told: toldByRepeat(details, patch, context) } };
    }
    const attempt = this.#allowed(patch, details, before);
    if (changesNothing(attempt)) return { facts: [], answer: await this.#showUnchanged(attempt) };
    const change = await this.#changeOf(attempt);
    const { duplicate, claim } = await this.#clear(attempt, change);
    if (duplicate) return { facts: [], answer: await this.#showDuplicate(attempt, duplicate) };
    const toCaller = shownTo(context.principal, { id, containers: attempt.target }, attempt.targetTransform);
    const shown = shownBy(toCaller.transform, change.rest.mask !== undefined);
    const content = { ...(await this.#reseal(details, change, patch, context)), ...change.rest };
    const said = context.transactionId === undefined || shown === 'redact' ? shown : undefined;
    const command = { kind: 'update', content, shown: said, now: context.now } as const;
    const kept = new Set(keyIdsOf(details.content));
    return {
      answer: undefined,
      facts: tokenDecider.decide(state, command),
      keys: keyIdsOf(content).filter((keyId) => !kept.has(keyId)),
      claim: () => claim(id),
      // The transaction may have set the expiry itself in an earlier write.
      expiresAt: before.isPending ? undefined : details.content.expires_at,
      change,
      toCaller,
      shown,
      told: toldBySuccess(attempt, change.masked === undefined ? undefined : change.mask),
    };
  }

  /** Records a reading of the token when the error depends on its data. */
  #changeOf(attempt: PatchAttempt): ReturnType<typeof changeOf> {
    return changeOf(this.#dependencies, attempt).catch(async (error: unknown) => {
      const failure = failureOfPatch(error, attempt);
      const transform = isDataHidden(attempt) ? 'redact' : 'reveal';
      if (failure instanceof DataDependentError)
        await this.#recordRead(attempt.context, attempt.details, transform);
      throw failure;
    });
  }

  /** The answer that deduplication gives instead of the changed token. */
  async #showDuplicate(attempt: PatchAttempt, duplicate: TokenDetails): Promise<UpdatedToken> {
    const { context, details } = attempt;
    const existing = await this.#existing.show(context, duplicate, 'update');
    const told = toldByDuplicate(attempt);
    if (told.shown?.isTold) await this.#recordRead(context, details, 'reveal');
    return { ...existing, position: undefined, told };
  }

  /** The token as it is. No event tells of the answer, so it has a record of its own. */
  async #showUnchanged({ details, context, target, targetTransform }: PatchAttempt): Promise<UpdatedToken> {
    const { content } = details;
    const toCaller = shownTo(context.principal, { id: details.id, containers: target }, targetTransform);
    const transform = shownBy(toCaller.transform, content.mask !== undefined);
    await this.#recordRead(context, details, transform);
    const token = await presentAs(this.#dependencies, details, toCaller, context);
    const cvcEndsAt = shownCvcEndOf(content, transform, context.now);
    return { token, position: undefined, cvcEndsAt, shown: { permission: 'token:update', transform } };
  }

  /** The record is durable before the answer or the error. */
  #recordRead(context: RequestContext, details: TokenDetails, transform: Transform): Promise<void> {
    return recordShown(this.#dependencies.audit, context, { operation: 'read', details, transform });
  }

  /** @throws ForbiddenError, ConflictError */
  #allowed(
    patch: PatchTokenBody,
    details: TokenDetails,
    { context, lockedBy }: TokenBefore & TokenHistory,
  ): PatchAttempt {
    const { id, type } = details;
    const { containers } = details.content;
    const transform = requireAccess(context, 'token:update', { id, type, containers });
    if (lockedBy !== undefined)
      throw new ConflictError('token_locked', 'The token is locked by an open transaction.');
    const target =
      patch.containers === null ? [typeDefaults[type].container] : (patch.containers ?? containers);
    const targetTransform = requireAccess(context, 'token:update', { id, type, containers: target });
    const attempt = { details, patch, context, target, transform, targetTransform };
    refuseUseOfHiddenData(attempt);
    return attempt;
  }

  async #answer(
    { change, toCaller, shown, told }: Written,
    updated: TokenDetails,
    context: RequestContext,
    position: Position | undefined,
  ): Promise<UpdatedToken> {
    // If the transaction is rolled back, the event of the write does not count, but the caller has seen the token. So
    // the answer gets a record of its own.
    const seen = told ? 'reveal' : shown;
    if (context.transactionId !== undefined && seen !== 'redact')
      await this.#recordRead(context, updated, seen);
    const expressions = expressionsOf(this.#dependencies, context);
    const data = await transformWrittenData(expressions, toCaller.transform, change, () => change.data);
    const token = withoutUnreadable(presentToken(context.principal.tenant.id, updated, data), toCaller);
    const showing = { permission: 'token:update', transform: shown } as const;
    const cvcEndsAt = shownCvcEndOf(updated.content, shown, context.now);
    return { token, position, cvcEndsAt, shown: showing, told };
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
    const given = { type: details.type, data: change.data, isCvcGiven: isCvcIn(patch.data) };
    return resealToken(this.#dependencies.keyRing, place, { ...given, before: content }, context.now);
  }

  /** The live token of equal content, when deduplication asks for it. Otherwise the claim to make. */
  #clear(attempt: PatchAttempt, change: Change): Promise<Clearance> {
    const { details, patch, context } = attempt;
    const { id, content } = details;
    const { fingerprint } = change.rest;
    const isAsked =
      fingerprint !== content.fingerprint ||
      patch.deduplicate_token === true ||
      isGuess(attempt, change.rest.fingerprint_expression);
    const asked = isAsked ? fingerprint : undefined;
    return this.#duplicates.clear(context, asked, change.deduplicate, { exceptId: id });
  }
}

/**
 * A caller that does not see the data may not learn, by the limit of misses or by the position, whether it sent the data that was there: its
 * data is compared also when it makes the same fingerprint. A fingerprint of data that it did not send is not compared: the answer would be the
 * equal one among any number of tokens that it made.
 */
function isGuess(attempt: PatchAttempt, expression: string | undefined): boolean {
  const { patch, transform } = attempt;
  if (patch.data === undefined || transform === 'reveal') return false;
  return !isDataHidden(attempt) || (expression !== undefined && effectOfPatch(expression, patch).changesData);
}

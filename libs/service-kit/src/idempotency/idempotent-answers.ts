import { createHmac } from 'node:crypto';
import { ConflictError, DomainError, NotFoundError, ValidationError } from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import { RevisionConflictError } from '@token-vault/event-store';
import type { Answer, Clock, IdempotentAnswers, IdempotentRequest, Repeating } from '@token-vault/operations';
import { errorFields, silentLogger, type Logger } from '../logger.ts';
import { createAnswerTable, sweepAnswers, type AnswerTable, type Queryable } from './answer-table.ts';
import {
  notKept,
  openAnswer,
  requireCurrentVersion,
  sealAnswer,
  type StoredAnswer,
} from './sealed-answer.ts';
import { requireSignedAnswer, signAnswer, type AnswerPlace } from './signed-answer.ts';

export interface IdempotentAnswersOptions {
  /** Of the primary. */
  readonly pool: Queryable;
  readonly keyRing: Pick<KeyRing, 'sealNew' | 'open' | 'hashes' | 'destroyKeys'>;
  readonly clock: Clock;
  readonly logger?: Logger;
  /** After how long without a sign of life a request counts as cut off. */
  readonly leaseMs?: number;
}

/** rules.md §2. */
const lifetimeMs = 24 * 60 * 60 * 1000;
const defaultLeaseMs = 60_000;
const maxKeyLength = 255;

/** Holds what this process runs, until told otherwise. The timer runs only while there is something to hold. */
class Leases {
  readonly #table: AnswerTable;
  readonly #logger: Logger;
  readonly #intervalMs: number;
  readonly #holders = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(table: AnswerTable, logger: Logger, leaseMs: number) {
    this.#table = table;
    this.#logger = logger;
    this.#intervalMs = leaseMs / 4;
  }

  add(holder: string): void {
    this.#holders.add(holder);
    this.#timer ??= setInterval(() => void this.#extend(), this.#intervalMs).unref();
  }

  remove(holder: string): void {
    this.#holders.delete(holder);
  }

  async #extend(): Promise<void> {
    if (this.#holders.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    try {
      await this.#table.extend([...this.#holders]);
    } catch (error) {
      this.#logger.warn(errorFields(error), 'idempotent requests could not be held');
    }
  }
}

interface HeldRequest extends AnswerPlace {
  readonly holder: string;
  readonly expiresAt: Date;
}

/** It is not stored (rules.md §2), however it came about: a reactor may answer with any status. */
const isFailure = ({ status = 200 }: Answer): boolean => status >= 400;

/** Whether it is known how the request ended. What is not known, the next attempt finds out. */
function isDefinite(error: unknown): boolean {
  return error instanceof RevisionConflictError || (error instanceof DomainError && error.status !== 503);
}

class PostgresIdempotentAnswers implements IdempotentAnswers {
  readonly #options: IdempotentAnswersOptions;
  readonly #logger: Logger;
  readonly #table: AnswerTable;
  readonly #leases: Leases;

  constructor(options: IdempotentAnswersOptions) {
    const leaseMs = options.leaseMs ?? defaultLeaseMs;
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
    this.#table = createAnswerTable(options.pool, leaseMs);
    this.#leases = new Leases(this.#table, this.#logger, leaseMs);
  }

  async run(
    request: IdempotentRequest,
    handle: (scope: readonly string[]) => Promise<Answer>,
    repeating: Repeating,
  ): Promise<Answer> {
    const tenantId = request.principal.tenant.id;
    const scope = await this.#scopeOf(request);
    const now = this.#options.clock.now();
    const expiresAt = new Date(now.getTime() + lifetimeMs);
    const claim = await this.#table.claim(scope, tenantId, now, expiresAt);
    if (claim.kind === 'in-flight')
      throw new ConflictError('idempotency_in_flight', 'A request with this idempotency key is running.');
    if (claim.kind === 'answered') {
      const { answer, tokens } = await this.#open(
        { scope, tenantId, requestId: claim.requestId },
        claim.answer,
        now,
      );
      return repeating.show(answer, tokens);
    }
    const { requestId, holder } = claim;
    this.#leases.add(holder);
    try {
      // With the scope, which is computed from the request: the row of a request under way is not signed, and with the request id of
      // another request in it, this one would take up what that one has begun.
      const answer = await handle([tenantId, scope.toString('base64url'), requestId]);
      await this.#keep({ scope, holder, tenantId, requestId, expiresAt }, answer, repeating);
      return answer;
    } catch (error) {
      await this.#letGo(scope, holder, error);
      throw error;
    } finally {
      this.#leases.remove(holder);
    }
  }

  /** Rows are deleted; the keys of their answers end by their own time, which is the same or earlier. */
  sweep(now: Date): Promise<number> {
    return sweepAnswers(this.#options.pool, now);
  }

  /** The key is not stored: callers put order numbers and worse into it. */
  async #scopeOf({ principal, method, path, key }: IdempotentRequest): Promise<Buffer> {
    if (key.length > maxKeyLength)
      throw ValidationError.of('SVC-IDEMPOTENCY-KEY', `must be at most ${maxKeyLength} characters`);
    const { tenant, applicationId, actor } = principal;
    const hashes = await this.#options.keyRing.hashes(tenant.id);
    // A session is a caller of its own: its rules may differ from those of the application's other sessions.
    const parts = [applicationId, actor.kind, actor.id, method, path, key];
    return createHmac('sha256', hashes.macKey('idempotency')).update(JSON.stringify(parts)).digest();
  }

  async #open(request: AnswerPlace, stored: StoredAnswer, now: Date) {
    try {
      requireCurrentVersion(request.requestId, stored);
      await requireSignedAnswer(this.#options.keyRing, request, stored);
      return await openAnswer(this.#options.keyRing, request, stored, now);
    } catch (error) {
      if (error instanceof KeyDestroyedError) throw new NotFoundError('What the first request answered with');
      throw error;
    }
  }

  /** The request has succeeded, so nothing here may fail it: the worst is that a repeat runs again, with the same event ids. */
  async #keep(request: HeldRequest, answer: Answer, repeating: Repeating): Promise<void> {
    const { scope, holder } = request;
    try {
      if (isFailure(answer)) return await this.#table.release(scope, holder);
      const stored =
        answer.isUnrepeatable === true
          ? undefined
          : await sealAnswer(this.#options.keyRing, request, answer, (ids) => repeating.facts(ids));
      const kept = stored ?? notKept(this.#options.clock.now());
      await this.#table.store(scope, holder, await signAnswer(this.#options.keyRing, request, kept));
    } catch (error) {
      this.#logger.warn(errorFields(error), 'idempotent answer not stored');
      await this.#table.abandon(scope, holder).catch(() => undefined);
    }
  }

  async #letGo(scope: Buffer, holder: string, error: unknown): Promise<void> {
    try {
      if (isDefinite(error)) await this.#table.release(scope, holder);
      else await this.#table.abandon(scope, holder);
    } catch (failure) {
      this.#logger.warn(errorFields(failure), 'idempotent request not let go');
    }
  }
}

export type SweptIdempotentAnswers = IdempotentAnswers & {
  /** Deletes what has expired; any replica may call it. Gives how many answers went. */
  sweep(now: Date): Promise<number>;
};

/**
 * Idempotent answers in Postgres (`idempotencyMigrations` must be applied). A request that was cut off is run again under the
 * ids of the first attempt, so that what it had written is recognised.
 */
export function createIdempotentAnswers(options: IdempotentAnswersOptions): SweptIdempotentAnswers {
  return new PostgresIdempotentAnswers(options);
}

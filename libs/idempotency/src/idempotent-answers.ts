import { createHmac } from 'node:crypto';
import {
  ConflictError,
  DomainError,
  NotFoundError,
  OutcomeUnknownError,
  ValidationError,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import { RevisionConflictError } from '@token-vault/event-store';
import type { Answer, Clock, IdempotentAnswers, IdempotentRequest, Repeating } from '@token-vault/operations';
import { errorFields, silentLogger, type Logger } from '@token-vault/observability';
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
  /** A pool of the primary. */
  readonly pool: Queryable;
  readonly keyRing: Pick<KeyRing, 'sealNew' | 'open' | 'hashes' | 'destroyKeys'>;
  readonly clock: Clock;
  readonly logger?: Logger;
  /** A request counts as cut off when its lease was not extended for this time; 3,000 by default. */
  readonly leaseMs?: number;
}

/** rules.md §2. */
const lifetimeMs = 24 * 60 * 60 * 1000;
/** How long a client waits for a request whose process was killed. A living process extends its leases four times in this time. */
const defaultLeaseMs = 3_000;
const maxKeyLength = 255;

/** Extends the leases of the requests that this process runs. The timer runs only while there are any. */
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
      this.#logger.warn(errorFields(error), 'the leases of running idempotent requests were not extended');
    }
  }
}

interface HeldRequest extends AnswerPlace {
  readonly holder: string;
  readonly expiresAt: Date;
}

/** A failure is not stored (rules.md §2), whatever its cause: a reactor may answer with any status. */
const isFailure = ({ status = 200 }: Answer): boolean => status >= 400;

/** Whether the outcome of the request is known. If not, the next attempt finds it out. */
function isDefinite(error: unknown): boolean {
  if (error instanceof OutcomeUnknownError) return false;
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
    handle: (scope: readonly string[], isTakenOver: boolean) => Promise<Answer>,
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
    const { requestId, holder, isTakenOver } = claim;
    this.#leases.add(holder);
    try {
      // The ids contain the scope, which is computed from the request. The row of a request under way is not signed: an attacker could put
      // the request id of another request into it. Without the scope, this request would then continue that other request.
      const answer = await handle([tenantId, scope.toString('base64url'), requestId], isTakenOver);
      await this.#keep({ scope, holder, tenantId, requestId, expiresAt }, answer, repeating);
      return answer;
    } catch (error) {
      await this.#release(scope, holder, error);
      throw error;
    } finally {
      this.#leases.remove(holder);
    }
  }

  abandonAll(): Promise<void> {
    return this.#table.abandonAll();
  }

  /** Deletes rows. The keys of their answers expire by their own time, which is the same or earlier. */
  sweep(now: Date): Promise<number> {
    return sweepAnswers(this.#options.pool, now);
  }

  /** The idempotency key is not stored: callers may put order numbers or sensitive data into it. */
  async #scopeOf({ principal, method, path, key }: IdempotentRequest): Promise<Buffer> {
    if (key.length > maxKeyLength)
      throw ValidationError.of('SVC-IDEMPOTENCY-KEY', `must be at most ${maxKeyLength} characters`);
    const { tenant, applicationId, actor } = principal;
    const hashes = await this.#options.keyRing.hashes(tenant.id);
    // A session is a separate caller: its rules may differ from those of the application's other sessions.
    const parts = [applicationId, actor.kind, actor.id, method, path, key];
    return createHmac('sha256', hashes.macKey('idempotency')).update(JSON.stringify(parts)).digest();
  }

  async #open(request: AnswerPlace, stored: StoredAnswer, now: Date) {
    try {
      requireCurrentVersion(request.requestId, stored);
      await requireSignedAnswer(this.#options.keyRing, request, stored);
      return await openAnswer(this.#options.keyRing, request, stored, now);
    } catch (error) {
      if (error instanceof KeyDestroyedError) throw new NotFoundError('The content of the first answer');
      throw error;
    }
  }

  /** The request has succeeded, so an error here must not fail it. In the worst case a repeat runs again, with the same event ids. */
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

  async #release(scope: Buffer, holder: string, error: unknown): Promise<void> {
    try {
      if (isDefinite(error)) await this.#table.release(scope, holder);
      else await this.#table.abandon(scope, holder);
    } catch (failure) {
      this.#logger.warn(errorFields(failure), 'idempotency key not released');
    }
  }
}

export type SweptIdempotentAnswers = IdempotentAnswers & {
  /** Deletes expired answers; any replica may call it. Returns the number of deleted answers. */
  sweep(now: Date): Promise<number>;
  /** Ends the leases of all requests under way, so that their repeats continue at once. Only for a process that knows that the processes which ran these requests have ended. */
  abandonAll(): Promise<void>;
};

/**
 * Idempotent answers in Postgres (`idempotencyMigrations` must be applied). A request that was cut off runs again under the ids of its
 * first attempt, so that the store recognises the events it had written.
 */
export function createIdempotentAnswers(options: IdempotentAnswersOptions): SweptIdempotentAnswers {
  return new PostgresIdempotentAnswers(options);
}

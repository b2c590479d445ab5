import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import type { Json, OperationId } from '@token-vault/contracts';
import type { Executor, OperationRequest } from '@token-vault/operations';
import { problemDetails, toProblem } from '@token-vault/service-kit';

/** What a caller asks for. */
export interface Asked {
  readonly operation: OperationId;
  readonly params?: unknown;
  readonly query?: unknown;
  readonly body?: unknown;
  readonly transactionId?: string;
}

/** All that a caller is told. */
export interface Told {
  readonly status: number | undefined;
  readonly body: Json;
}

/** A way into the vault. A further one (queue, command line, proxy) is one more of these. */
export interface Entrance {
  readonly name: string;
  ask(executor: Executor, principal: Principal, asked: Asked): Promise<Told[]>;
}

/** What HTTP and reactor code (`req.svc`) both come down to. */
async function tell(
  executor: Executor,
  principal: Principal,
  { operation, params = {}, query = {}, body, transactionId }: Asked,
  more: Partial<OperationRequest> = {},
): Promise<Told> {
  try {
    const { answer } = await executor.execute(operation, {
      traceId: 'trace',
      identify: async () => ({ kind: 'authenticated', principal }),
      params,
      query,
      readBody: async () => body,
      transactionId,
      ...more,
    });
    return { status: answer.status, body: JSON.parse(JSON.stringify(answer.body ?? null)) as Json };
  } catch (error) {
    const problem = toProblem(error);
    // Equal failures would compare as equal answers.
    if (problem.status >= 500) throw error;
    const details = problemDetails(problem, '/', 'trace') as unknown as Json;
    const { retryAfterSeconds = null } = problem as { retryAfterSeconds?: number };
    return { status: problem.status, body: { details, retryAfterSeconds } };
  }
}

export const direct: Entrance = {
  name: 'a request',
  ask: async (executor, principal, asked) => [await tell(executor, principal, asked)],
};

/** The same request again under its idempotency key. */
export const replayed: Entrance = {
  name: 'an idempotent replay',
  async ask(executor, principal, asked) {
    const idempotencyKey = randomUUID();
    const first = await tell(executor, principal, asked, { idempotencyKey });
    return [first, await tell(executor, principal, asked, { idempotencyKey })];
  },
};

export const entrances: readonly Entrance[] = [direct, replayed];

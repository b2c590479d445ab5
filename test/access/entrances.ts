import { randomUUID } from 'node:crypto';
import { operations, type Json, type Operation, secret } from '@token-vault/contracts';
import type { Identity, OperationRequest } from '@token-vault/operations';
import { problemDetails, toProblem } from '@token-vault/http';
import type { Asked, Told } from './asked.ts';
import { inBulk } from './in-bulk.ts';
import { counted, type Twins } from './twins.ts';

export type { Asked, Told };

/** A caller with a key of its own, or a person without an application. */
export interface Asker {
  readonly key: string;
  /** Sent over HTTP besides the key, which may be empty: the cookie of a browser. */
  readonly headers?: Readonly<Record<string, string>>;
  identify(): Promise<Identity>;
}

/** A way into the vault. */
export interface Entrance {
  readonly name: string;
  ask(twins: Twins, asker: Asker, asked: Asked): Promise<Told[]>;
}

/** The result of a request by HTTP or by reactor code (`req.svc`). */
export async function tell(
  { executor }: Pick<Twins, 'executor'>,
  asker: Pick<Asker, 'identify'>,
  { operation, params = {}, query = {}, body, transactionId }: Asked,
  more: Partial<OperationRequest> = {},
): Promise<Told> {
  const execute = () =>
    executor.execute(operation, {
      traceId: 'trace',
      identify: () => asker.identify(),
      params,
      query,
      readBody: async () => secret(body),
      transactionId,
      ...more,
    });
  const { result, work } = await counted(() => execute().then(({ answer }) => ({ answer }), failureOf));
  return 'answer' in result
    ? {
        status: result.answer.status,
        body: JSON.parse(JSON.stringify(result.answer.body ?? null)) as Json,
        work,
      }
    : { ...result, work };
}

function failureOf(error: unknown): Told {
  const problem = toProblem(error);
  // Two equal failures would count as equal answers.
  if (problem.status >= 500) throw error;
  const details = problemDetails(problem, '/', 'trace') as unknown as Json;
  const { retryAfterSeconds = null } = problem as { retryAfterSeconds?: number };
  return { status: problem.status, body: { details, retryAfterSeconds } };
}

export const direct: Entrance = {
  name: 'a request',
  ask: async (twins, asker, asked) => [await tell(twins, asker, asked)],
};

/** The same request again under its idempotency key. */
const replayed: Entrance = {
  name: 'an idempotent replay',
  async ask(twins, asker, asked) {
    const idempotencyKey = randomUUID();
    const first = await tell(twins, asker, asked, { idempotencyKey });
    return [first, await tell(twins, asker, asked, { idempotencyKey })];
  },
};

/**
 * Headers that say nothing about the data: times and positions. The length is left out because the body itself is
 * compared, and fingerprints have 43 or 44 characters by chance.
 */
const aside: ReadonlySet<string> = new Set([
  'date',
  'svc-position',
  'content-length',
  // The rest of the minute.
  'ratelimit',
]);

function pathOf({ operation, params = {}, query = {} }: Asked): string {
  const path = operations[operation].path.replaceAll(/\{(\w+)\}/g, (_all, name: string) =>
    encodeURIComponent(String((params as Record<string, unknown>)[name])),
  );
  const search = new URLSearchParams(query as Record<string, string>).toString();
  return search === '' ? path : `${path}?${search}`;
}

/** Headers too, for example those of a limit or of a cache. */
export async function tellOverHttp(
  url: string,
  key: string,
  asked: Asked,
  more: Readonly<Record<string, string>> = {},
): Promise<Told> {
  const { method, bodyType }: Operation = operations[asked.operation];
  const hasBody = asked.body !== undefined;
  const response = await fetch(`${url}${pathOf(asked)}`, {
    method,
    headers: {
      'SVC-API-KEY': key,
      'SVC-TRACE-ID': 'trace',
      ...(hasBody && { 'Content-Type': bodyType ?? 'application/json' }),
      ...(asked.transactionId !== undefined && { 'SVC-TRANSACTION-ID': asked.transactionId }),
      ...more,
    },
    ...(hasBody && { body: JSON.stringify(asked.body) }),
  });
  const text = await response.text();
  const { status } = response;
  if (status >= 500) throw new Error(`${asked.operation}: ${status} ${text}`);
  const headers = Object.fromEntries([...response.headers].filter(([name]) => !aside.has(name)));
  return { status, headers, body: text === '' ? null : (JSON.parse(text) as Json) };
}

const http: Entrance = {
  name: 'HTTP',
  ask: async ({ url }, { key, headers }, asked) => [await tellOverHttp(url, key, asked, headers)],
};

const bulk: Entrance = {
  name: 'a request about many tokens',
  async ask(twins, asker, asked) {
    const many = inBulk(asked);
    if (!many) return direct.ask(twins, asker, asked);
    const told = await tell(twins, asker, many.asked);
    // The whole request was refused, as the single one would be.
    if ((told.status ?? 200) !== 200) return [told];
    return [{ ...told, ...many.toldOf(told.body) }];
  },
};

export const entrances: readonly Entrance[] = [direct, replayed, bulk, http];

import type { Pagination, ProblemDetails } from '@token-vault/contracts';

/** An answer of the vault that is not a success. `problem` is absent when the vault could not be reached. */
export class ApiError extends Error {
  readonly status: number;
  readonly problem: Partial<ProblemDetails>;
  /** The run of a reactor that the request began. */
  readonly invocationId: string | undefined;
  constructor(status: number, problem: Partial<ProblemDetails>, invocationId?: string) {
    super(problem.detail ?? problem.title ?? 'The vault did not answer.');
    this.name = 'ApiError';
    this.status = status;
    this.problem = problem;
    this.invocationId = invocationId;
  }
}

export interface Page<Item> {
  readonly pagination: Pagination;
  readonly data: readonly Item[];
}

export type Parameters = Readonly<Record<string, string | number | readonly string[] | undefined>>;

/** A path with its query. Unset and empty parameters are left out. */
export function withQuery(path: string, parameters: Parameters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? (value as readonly string[]) : [value]) {
      if (each !== undefined && each !== '') query.append(name, String(each));
    }
  }
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

export interface CallOptions {
  readonly body?: unknown;
  readonly contentType?: string;
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
}

let signedOut: () => void = () => undefined;
/** `listener` is called when the vault does not know the session any more. */
export function onSignedOut(listener: () => void): void {
  signedOut = listener;
}

/**
 * Sends a request to the vault that serves this page. The session cookie goes along; only the sign-in sends a key.
 * @throws ApiError when the answer is not a success.
 */
export async function call<Answer = undefined>(
  method: string,
  path: string,
  { body, contentType = 'application/json', signal, headers = {} }: CallOptions = {},
): Promise<Answer> {
  const init: RequestInit = { method, credentials: 'same-origin', cache: 'no-store', headers };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...headers, 'Content-Type': contentType };
  }
  if (signal !== undefined) init.signal = signal;
  const response = await fetch(path, init).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { detail: 'The vault could not be reached.' });
  });
  const content = contentOf(await response.text());
  if (response.ok) return content as Answer;
  if (response.status === 401 && path !== '/console/session') signedOut();
  const problem = typeof content === 'object' && content !== null ? content : {};
  throw new ApiError(response.status, problem, response.headers.get('SVC-INVOCATION-ID') ?? undefined);
}

function contentOf(text: string): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

export const asApiError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError(0, { detail: 'The console failed to read the answer.' });

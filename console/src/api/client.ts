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

export const sessionPath = '/console/session';

let shownSession: string | undefined;
/** Requests name this session from now on: the one that the page shows. The vault refuses a cookie of another one. */
export function bindTo(sessionId: string | undefined): void {
  shownSession = sessionId;
}

let refused: (isOfKey: boolean) => void = () => undefined;
/** `listener` is called when the vault does not know the session that the page shows, or (`isOfKey`) the key that was to be added to it. */
export function onRefused(listener: (isOfKey: boolean) => void): void {
  refused = listener;
}

/**
 * Sends a request to the vault that serves this page. The session cookie goes along, with the id of the session that the page shows; only
 * the sign-in sends a key.
 * @throws ApiError when the answer is not a success.
 */
export async function call<Answer = undefined>(
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Answer> {
  // This request asks which session it is.
  const session = method === 'GET' && path === sessionPath ? undefined : shownSession;
  const response = await fetch(path, initOf(method, session, options)).catch((error: unknown) => {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, { detail: 'The vault could not be reached.' });
  });
  const content = contentOf(await response.text());
  if (response.ok) return content as Answer;
  if (response.status === 401 && session !== undefined && session === shownSession)
    refused(path === sessionPath);
  const problem = typeof content === 'object' && content !== null ? content : {};
  throw new ApiError(response.status, problem, response.headers.get('SVC-INVOCATION-ID') ?? undefined);
}

function initOf(
  method: string,
  session: string | undefined,
  { body, contentType = 'application/json', signal, headers: own = {} }: CallOptions,
): RequestInit {
  const headers = new Headers(own);
  if (session !== undefined) headers.set('SVC-CONSOLE-SESSION', session);
  const init: RequestInit = { method, credentials: 'same-origin', cache: 'no-store', headers };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    headers.set('Content-Type', contentType);
  }
  if (signal !== undefined) init.signal = signal;
  return init;
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

import { holderOf } from '@token-vault/access';
import type { Holder } from '@token-vault/batching';
import {
  operations,
  proxyKeyOf,
  readsBody,
  secret,
  type Operation,
  type OperationId,
  type RawRequest,
} from '@token-vault/contracts';
import type { Answer, Executor, Identity, OperationRequest } from '@token-vault/operations';
import type { Request, Response } from 'express';
import type { Authentication, Authenticator } from '@token-vault/authentication';
import { collectBody, rawBodyLimitBytes, readBody } from './body.ts';
import { consoleCredentialOf, namedSessionOf, requireConsolePage, writeCookie } from './console-cookie.ts';
import { inFlight } from './in-flight.ts';
import type { RateLimits } from './rate-limits.ts';
import { clientSignal, workOn } from './request-life.ts';
import { requestTurns, type RequestTurns, type Turn } from './request-turns.ts';

/** Finds the caller of a request through a configured proxy that came without an API key. */
export interface ProxyKeys {
  /** `key` comes from the URL. Undefined when the URL has none: some proxies need no key. */
  authenticate(proxyId: string, key: string | undefined): Promise<Authentication>;
}

export interface HttpCallers {
  /** Absent in a process that answers no requests through proxies. */
  readonly proxyKeys?: ProxyKeys | undefined;
  readonly isLenient?: boolean;
  readonly authenticator: Authenticator;
  readonly rateLimits?: RateLimits;
  /** By default the turns of the process. */
  readonly turns?: RequestTurns;
}

export interface OperationCall {
  readonly id: OperationId;
  readonly request: Request;
  readonly response: Response;
  readonly traceId: string;
}

const header = (request: Request, name: string): string | undefined => {
  const value = request.headers[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
};

const asUtf8 = new TextDecoder('utf-8', { fatal: true });

/** Node gives the bytes of a header as Latin-1. Clients write UTF-8, or Latin-1 where that is no UTF-8. */
function utf8(value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  try {
    return asUtf8.decode(Buffer.from(value, 'latin1'));
  } catch {
    return value;
  }
}

/** The key or cookie of a request, and the function that finds its owner. A key of an application is never taken from a URL. */
function credentialOf({ id, request }: OperationCall, { authenticator, proxyKeys }: HttpCallers) {
  const operation: Operation = operations[id];
  const key = header(request, 'svc-api-key');
  if (key !== undefined) return { shown: { key }, find: () => authenticator.authenticate(key) };
  const signedIn = consoleCredentialOf(request, operation, authenticator);
  if (signedIn) return { shown: { key: signedIn.key }, find: signedIn.find };
  if (!operation.takesProxyKeys || !proxyKeys) return { shown: {}, find: () => Promise.resolve(undefined) };
  const proxyKey = proxyKeyOf(queryOf(request.originalUrl));
  const proxyId = String(request.params.id).toLowerCase();
  return { shown: { key: proxyKey, proxyId }, find: () => proxyKeys.authenticate(proxyId, proxyKey) };
}

async function identify(call: OperationCall, callers: HttpCallers): Promise<Identity> {
  const { request, response } = call;
  const { rateLimits } = callers;
  const { shown, find } = credentialOf(call, callers);
  const result = await (rateLimits ? rateLimits.look(request.ip, shown, find, response) : find());
  if (result?.kind === 'authenticated') {
    rateLimits?.passed(result.principal.actor.id, response);
    return result;
  }
  return result ?? { kind: 'unknown' };
}

/** Whether a preference has this value. The first one of the name counts, without its parameters (RFC 7240, 2). Case does not. */
function prefers(request: Request, name: string, value = ''): boolean {
  const given = header(request, 'prefer')?.toLowerCase().split(',') ?? [];
  const first = given
    .map((each) => each.replace(/;.*/s, '').replaceAll(/[\s"]/g, '').split('='))
    .find((each) => each[0] === name);
  return first !== undefined && (first[1] ?? '') === value;
}

const queryOf = (url: string): string => {
  const mark = url.indexOf('?');
  return mark < 0 ? '' : url.slice(mark + 1);
};

/** Express gives the rest of a path as its segments. */
const paramsOf = ({ params }: Request): unknown =>
  Object.fromEntries(
    Object.entries(params).map(([name, value]) => [name, Array.isArray(value) ? value.join('/') : value]),
  );

/** The request as it came: the parts that go on to another server. */
async function readRaw(
  { request, response }: OperationCall,
  begin: () => Promise<void>,
): Promise<RawRequest> {
  const { method = 'GET', rawHeaders, originalUrl } = request;
  const body = await collectBody(request, response, rawBodyLimitBytes);
  await begin();
  return {
    method,
    path: originalUrl.split('?', 1)[0] ?? '',
    query: queryOf(originalUrl),
    headers: rawHeaders.flatMap((name, index) =>
      index % 2 === 0 ? [[name, rawHeaders[index + 1] ?? ''] as const] : [],
    ),
    body: secret(body),
    signal: clientSignal(response),
  };
}

/** When the run is in the log, the answer names it, also when the answer is an error. So the caller can look it up. */
function nameInvocation(response: Response, invocationId: string): void {
  response.setHeader('SVC-INVOCATION-ID', invocationId);
  response.setHeader('Location', `/invocations/${invocationId}`);
}

function toOperationRequest(call: OperationCall, callers: HttpCallers, turn: Turn): OperationRequest {
  const { request, response, traceId } = call;
  const isLenient = prefers(request, 'handling', 'lenient');
  if (isLenient) response.setHeader('Preference-Applied', 'handling=lenient');
  const operation: Operation = operations[call.id];
  const { rateLimits: _counted, ...uncounted } = callers;
  let isCounted = false;
  let holder: Holder = { tenantId: '', applicationId: '' };
  return {
    traceId,
    identify: async () => {
      if (isCounted) return identify(call, uncounted);
      isCounted = true;
      const identity = await identify(call, callers);
      if (identity.kind === 'authenticated') {
        holder = holderOf(identity.principal);
        inFlight.assign(response, holder);
        if (!readsBody(operation) && !operation.isRaw) await turn.begin(holder);
      }
      return identity;
    },
    requirePage: () => requireConsolePage(request, operation),
    params: paramsOf(request),
    // A query that is sent on to another server is not parsed.
    query: operation.isRaw ? {} : request.query,
    readRaw: () => readRaw(call, () => turn.begin(holder)),
    // A request whose body arrives slowly holds no place meanwhile.
    readBody: () => readBody(request, response, holder, () => turn.begin(holder)),
    signal: clientSignal(response),
    onWaiting: () => turn.end(),
    outOfTurn: (wait) => turn.outOfTurn(wait),
    onInvoked: (invocationId) => nameInvocation(response, invocationId),
    mediaType: header(request, 'content-type') ?? '',
    transactionId: header(request, 'svc-transaction-id'),
    position: header(request, 'svc-position'),
    idempotencyKey: header(request, 'svc-idempotency-key'),
    reason: utf8(header(request, 'svc-reason')),
    consoleSession: () => namedSessionOf(request, callers.authenticator),
    isAsync: prefers(request, 'respond-async'),
    isLenient: isLenient || callers.isLenient === true,
  };
}

/** Passes an HTTP request to the executor, and writes the outcome of its own writes into the headers of the answer. */
export async function runOperation(
  call: OperationCall,
  executor: Executor,
  callers: HttpCallers,
): Promise<Answer> {
  const turn = (callers.turns ?? requestTurns).of(call.response);
  const execution = workOn(call.response, executor.execute(call.id, toOperationRequest(call, callers, turn)));
  const { answer, isVisible } = await execution.finally(() => turn.end());
  if (answer.invocationId !== undefined) nameInvocation(call.response, answer.invocationId);
  if (answer.position !== undefined) call.response.setHeader('SVC-POSITION', answer.position);
  if (answer.cookie !== undefined) writeCookie(call.request, call.response, answer.cookie);
  if (!isVisible) call.response.setHeader('SVC-CONSISTENCY', 'pending');
  return answer;
}

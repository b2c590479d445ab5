import type { OperationId } from '@token-vault/contracts';
import type { Answer, Executor, Identity, OperationRequest } from '@token-vault/operations';
import type { Request, Response } from 'express';
import type { Authenticator } from '../authentication.ts';
import { readBody, tooMuchAtOnce } from './body.ts';
import { inFlight } from './in-flight.ts';
import type { RateLimits } from './rate-limits.ts';

export interface HttpCallers {
  readonly isLenient?: boolean;
  readonly authenticator: Authenticator;
  readonly rateLimits?: RateLimits;
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

async function identify(
  { request, response }: OperationCall,
  { authenticator, rateLimits }: HttpCallers,
): Promise<Identity> {
  const key = header(request, 'svc-api-key');
  const find = () => (key === undefined ? Promise.resolve(undefined) : authenticator.authenticate(key));
  const result = await (rateLimits ? rateLimits.look(request.ip, key, find) : find());
  if (result?.kind === 'authenticated') {
    const { principal, keyHash } = result;
    rateLimits?.passed({ id: principal.actor.id, keyHash }, response);
    return result;
  }
  return result ?? { kind: 'unknown' };
}

/** Preferences of RFC 7240, whose names and values have no case. */
function prefers(request: Request, preference: string): boolean {
  const given = header(request, 'prefer')?.toLowerCase().split(/[,;]/) ?? [];
  return given.some((each) => each.replaceAll(/[\s"]/g, '') === preference);
}

function toOperationRequest(call: OperationCall, callers: HttpCallers): OperationRequest {
  const { request, response, traceId } = call;
  const isLenient = prefers(request, 'handling=lenient');
  if (isLenient) response.setHeader('Preference-Applied', 'handling=lenient');
  let isCounted = false;
  let tenantId = '';
  return {
    traceId,
    identify: async () => {
      if (isCounted) return identify(call, { authenticator: callers.authenticator });
      isCounted = true;
      const identity = await identify(call, callers);
      if (identity.kind === 'authenticated') {
        tenantId = identity.principal.tenant.id;
        if (!inFlight.assign(response, tenantId)) throw tooMuchAtOnce();
      }
      return identity;
    },
    params: request.params,
    query: request.query,
    readBody: () => readBody(request, response, tenantId),
    mediaType: header(request, 'content-type') ?? '',
    transactionId: header(request, 'svc-transaction-id'),
    position: header(request, 'svc-position'),
    idempotencyKey: header(request, 'svc-idempotency-key'),
    isAsync: prefers(request, 'respond-async'),
    isLenient: isLenient || callers.isLenient === true,
  };
}

/** Brings an HTTP request to the executor, and what it says of its own writes into the headers of the answer. */
export async function runOperation(
  call: OperationCall,
  executor: Executor,
  callers: HttpCallers,
): Promise<Answer> {
  const { answer, isVisible } = await executor.execute(call.id, toOperationRequest(call, callers));
  if (answer.position !== undefined) call.response.setHeader('SVC-POSITION', answer.position);
  if (!isVisible) call.response.setHeader('SVC-CONSISTENCY', 'pending');
  return answer;
}

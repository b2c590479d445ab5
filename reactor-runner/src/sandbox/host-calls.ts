import { ThreadShares, type Holder } from '@token-vault/batching';
import type { Json } from '@token-vault/contracts';
import { EgressError } from '@token-vault/egress';
import type { EgressRequest, EgressResponse } from '@token-vault/egress';
import { parseChecked } from './checked-json.ts';
import type { HostCalls } from './job.ts';
import { parseInTurn } from './large-json.ts';
import type { SandboxLimits } from './limits.ts';
import type { FromChild } from './messages.ts';

const serviceMethod = /^svc\.([a-z]+(?:\.[a-zA-Z]+)?)$/;

/** The processor time of a call of guest code, about, in milliseconds. */
const callMs = 0.5;
/** Calls of code do not wait for the pauses after large bodies. */
const callShares = new ThreadShares();

/**
 * Answers one call of guest code, as JSON text, except for the body of a request.
 * @throws the error of the call; {@link describeCallFailure} decides which part of it the code gets
 */
export async function answerHostCall(
  {
    calls,
    holder,
    signal,
  }: { readonly calls: HostCalls; readonly holder: Holder; readonly signal: AbortSignal },
  { method, payload, body }: Pick<Extract<FromChild, { type: 'call' }>, 'body' | 'method' | 'payload'>,
  limits: SandboxLimits,
): Promise<string> {
  const bounds = { depth: limits.jsonDepth, nodes: limits.jsonNodes };
  await callShares.pace(holder, callMs, signal);
  if (method === 'fetch') {
    const request = decodeRequest(parseChecked(payload, bounds));
    const whole = { ...request, ...(body === undefined ? {} : { body }), signal };
    return JSON.stringify(encodeResponse(await calls.fetch(whole)));
  }
  const name = serviceMethod.exec(method)?.[1];
  if (name === undefined || calls.svc === undefined)
    throw new EgressError('unsupported', 'There is no such host call');
  const text = (body ?? '').toString();
  return JSON.stringify(
    await calls.svc(name, await parseInTurn(holder, text.length, () => parseChecked(text, bounds), signal)),
  );
}

/** Never the error itself, because that may name addresses, or hold a credential or a request. */
export function describeCallFailure(error: unknown): string {
  if (error instanceof EgressError) return JSON.stringify({ message: error.message, code: error.code });
  const { status, problem } = (error ?? {}) as { status?: unknown; problem?: unknown };
  if (typeof status === 'number') {
    const message = `The service answered with status ${status}`;
    return JSON.stringify({ message, status, ...(problem === undefined ? {} : { problem }) });
  }
  return JSON.stringify({ message: 'The call failed' });
}

function decodeRequest(input: Json): EgressRequest {
  if (input === null || typeof input !== 'object' || Array.isArray(input)) throw invalidRequest();
  const { url, method, headers, redirect } = input;
  if (typeof url !== 'string' || typeof method !== 'string' || !Array.isArray(headers))
    throw invalidRequest();
  const pairs = headers.map((pair): [string, string] => {
    if (!Array.isArray(pair) || typeof pair[0] !== 'string' || typeof pair[1] !== 'string')
      throw invalidRequest();
    return [pair[0], pair[1]];
  });
  return {
    url,
    method,
    headers: pairs,
    redirect: redirect === 'manual' || redirect === 'error' ? redirect : 'follow',
  };
}

function invalidRequest(): EgressError {
  return new EgressError('invalid-request', 'The request is not valid');
}

function encodeResponse({ body, ...rest }: EgressResponse): Json {
  return {
    ...rest,
    headers: rest.headers.map(([name, value]) => [name, value]),
    body: Buffer.from(body).toString('base64'),
  };
}

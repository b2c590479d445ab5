import { EgressError } from './egress-error.ts';

export function responseTooLarge(): EgressError {
  return new EgressError('response-too-large', 'The response is too large');
}

export function timedOut(): EgressError {
  return new EgressError('timeout', 'The request timed out');
}

/** The error that ended an exchange, in the form that may be shown to the caller. */
export function asEgressError(error: unknown, signal: AbortSignal): EgressError {
  if (error instanceof EgressError) return error;
  if (signal.aborted) {
    const isTimeout = signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError';
    return isTimeout ? timedOut() : new EgressError('aborted', 'The request was aborted');
  }
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'UND_ERR_INVALID_ARG') return new EgressError('invalid-request', 'The request is not valid');
  if (code?.includes('TIMEOUT') === true) return timedOut();
  return new EgressError('network', 'The request failed');
}

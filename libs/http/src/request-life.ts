import type { ServerResponse } from 'node:http';

/** The client disconnected before its request was complete, or before its answer was sent: no answer can be sent. */
export class RequestAbortedError extends Error {
  /** As that of a signal that aborts without a reason. */
  override readonly name = 'AbortError';
  readonly code = 'request_aborted';
}

const signals = new WeakMap<ServerResponse, AbortSignal>();

/** Aborts with a RequestAbortedError when the client goes away before it has its answer. All waits for its request end by this signal. */
export function clientSignal(response: ServerResponse): AbortSignal {
  const before = signals.get(response);
  if (before) return before;
  const client = new AbortController();
  const gone = () => {
    if (!response.writableFinished) client.abort(new RequestAbortedError('the client disconnected'));
  };
  if (response.closed) gone();
  else response.once('close', gone);
  signals.set(response, client.signal);
  return client.signal;
}

const works = new WeakMap<ServerResponse, Promise<unknown>>();

/** Names the work for a request, which may end after its client has gone (`onceOver`). */
export function workOn<Result>(response: ServerResponse, work: Promise<Result>): Promise<Result> {
  works.set(response, work);
  return work;
}

/**
 * Calls `act` when the request is over: its answer is sent, or its client has gone and the work for it has ended, too. Until then the work may hold
 * the body.
 */
export function onceOver(response: ServerResponse, act: () => void): void {
  const closed = () => {
    const work = works.get(response);
    if (work) void work.then(act, act);
    else act();
  };
  if (response.closed) closed();
  else response.once('close', closed);
}

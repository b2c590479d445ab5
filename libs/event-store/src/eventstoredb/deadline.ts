import { EventStoreUnavailableError } from '../port.ts';

/**
 * The promise's value, unless it takes longer than `timeoutMs`. The client's own deadlines are not enough: some calls have none, and a call
 * that waits for a connection may wait for ever.
 * @throws EventStoreUnavailableError.
 */
export function withDeadline<Value>(
  promise: Promise<Value>,
  timeoutMs: number,
  message: string,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new EventStoreUnavailableError(`${message} in time`)), timeoutMs);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

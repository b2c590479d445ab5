export interface WaitingQueue {
  /** Puts a waiter into the queue, which calls it when its turn comes. */
  readonly push: (start: () => void) => void;
  /** False when the waiter has its turn already. */
  readonly remove: (start: () => void) => boolean;
}

/**
 * Waits in a queue. A waiter whose signal aborts leaves the queue, because it holds memory: its body, or data that it has opened.
 * @throws the reason of `signal`
 */
export async function queued({ push, remove }: WaitingQueue, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const giveUp = () => {
    if (remove(resolve)) reject(signal?.reason as Error);
  };
  signal?.addEventListener('abort', giveUp);
  push(resolve);
  await promise.finally(() => signal?.removeEventListener('abort', giveUp));
}

import { FairPlaces, followingOf, largeBytes, threadShares, type Holder } from '@token-vault/batching';
import { DomainError, UnavailableError } from '@token-vault/contracts';
import type { Readable } from 'node:stream';

/** The large answers that one process holds for code. Each takes some 4 MB, as bytes and as text, until its run is over. */
const places = 64;
/** Half of them for a tenant, and half of these for an application: as many runs as a tenant has in the sandbox. */
const placesOfTenant = places / 2;
const placesOfApplication = placesOfTenant / 2;
/** As many as there are exchanges of an application at most (routes.ts), so the queue refuses none of them. */
const waitingOfApplication = 256;

const gone = () => new UnavailableError('The answer of the destination ended before it was read.');

/**
 * Reads answers for code. A large one is read on when its application has a place, which it keeps until its run is over. Until then the
 * destination waits to send it, so answers that wait take no memory.
 */
export class LargeAnswers {
  readonly #places = new FairPlaces({
    places,
    placesOf: () => placesOfTenant,
    placesOfApplication: () => placesOfApplication,
    waitingOfTenant: waitingOfApplication,
    maxWaiting: Infinity,
    refuse: gone,
  });

  /** The number of answers that wait to be read. */
  get waiting(): number {
    return this.#places.waiting;
  }

  /**
   * @param argumentsOf makes the arguments of the code, within the tenant's share of the thread
   * @param run gets the arguments and the bytes
   * @throws DomainError `destination_failed` for an answer that is larger than that
   */
  async read<Args, Result>(
    {
      body,
      mostBytes,
      holder,
    }: { readonly body: Readable; readonly mostBytes: number; readonly holder: Holder },
    argumentsOf: (bytes: Buffer) => Args,
    run: (args: Args, bytes: Buffer) => Promise<Result>,
  ): Promise<Result> {
    let leave = (): void => undefined;
    const chunks: Buffer[] = [];
    let size = 0;
    try {
      // Leaving the loop destroys the stream and its connection.
      for await (const chunk of body as AsyncIterable<Buffer>) {
        if (size < largeBytes && size + chunk.length >= largeBytes) leave = await this.#enter(holder, body);
        size += chunk.length;
        if (size > mostBytes)
          throw new DomainError(
            'destination_failed',
            'The answer of the destination is larger than 1 MiB, the most that a transform takes.',
          );
        chunks.push(chunk);
      }
      const bytes = Buffer.concat(chunks.splice(0));
      if (size < largeBytes) return await run(argumentsOf(bytes), bytes);
      const { ms = 0 } = followingOf(size);
      const args = await threadShares.run(holder, () => argumentsOf(bytes), { ms });
      return await run(args, bytes);
    } finally {
      leave();
    }
  }

  /** Gives the function that gives the place back. Rejects when the answer breaks off, or its caller leaves, before. */
  async #enter({ tenantId, applicationId }: Holder, body: Readable): Promise<() => void> {
    const waiting = this.#places.enter(tenantId, applicationId);
    const giveUp = () => waiting?.giveUp(body.errored ?? gone());
    body.once('close', giveUp);
    if (body.closed) giveUp();
    await waiting?.begun.finally(() => body.off('close', giveUp));
    return () => this.#places.leave(tenantId, applicationId);
  }
}

/** One instance for the process, because memory is shared. */
export const largeAnswers = new LargeAnswers();

import { FairPlaces } from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import type { BodyTurns } from '@token-vault/http';

/** Each request holds the open data of its tokens: 80 MB at most, because 4 MiB of small objects take twenty times as much memory. */
const places = 6;
/** Half of them for a tenant, and two for an application: one request may wait for its expressions. */
const placesOfTenant = 3;
const placesOfApplication = 2;
/** More than an application has exchanges at most, so the queue refuses none of them. */
const waitingOfApplication = 256;

const tooMany = () =>
  new UnavailableError('Too many requests that use large tokens wait. Nothing was done; try again.');

/** Requests whose tokens are open at a time. Unlike `BodyTurns`, it counts a request for as long as it holds its data. */
class OpenPlaces implements Pick<BodyTurns, 'take'> {
  readonly #places = new FairPlaces({
    places,
    placesOf: () => placesOfTenant,
    placesOfApplication: () => placesOfApplication,
    waitingOfTenant: waitingOfApplication,
    maxWaiting: Infinity,
    refuse: tooMany,
  });

  async take<Result>(
    { holder, over, signal }: Parameters<BodyTurns['take']>[0],
    begin: () => Result,
  ): Promise<Result> {
    const { tenantId, applicationId } = holder;
    await this.#places.enter(tenantId, applicationId)?.begunWithin(undefined, signal);
    void over.then(() => this.#places.leave(tenantId, applicationId));
    return begin();
  }
}

/** One instance for the process, because memory is shared. */
export const openPlaces = new OpenPlaces();

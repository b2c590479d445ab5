import { holderOf } from '@token-vault/access';
import { FairPlaces } from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { isLargePage, type RowSize } from './large-rows.ts';

/** The pages with large tokens that are worked on at a time. Each holds a part of its rows, what is opened of them, and what it shows: some 30 MB at most. */
const places = 6;
/** Half of them for a tenant, and two for an application: one page may wait for its masks. */
const placesOfTenant = 3;
const placesOfApplication = 2;
/** Each waits with the small rows of its page. */
const waitingOfApplication = 64;
const maxWaiting = 512;
const defaultWaitMs = 10_000;

const tooMany = (): UnavailableError =>
  new UnavailableError('Too many lists and searches wait to be read. Nothing was shown; try again.');

type WaitingRequest = Pick<RequestContext, 'principal' | 'outOfTurn'>;

export interface LargePages {
  /**
   * Runs `work` on the rows of a page. Where the page is large, that is when it is the turn of the application. A request that waits holds no
   * place at the edge.
   * @throws UnavailableError when it waits for too long, and any error of `work`
   */
  run<Result>(
    request: WaitingRequest,
    rows: readonly RowSize[],
    work: () => Promise<Result>,
  ): Promise<Result>;
}

/** What others have stored decides how large a page is, so the memory of all such pages is bounded. */
export function createLargePages({ waitMs = defaultWaitMs }: { readonly waitMs?: number } = {}): LargePages {
  const fair = new FairPlaces({
    places,
    placesOf: () => placesOfTenant,
    placesOfApplication: () => placesOfApplication,
    waitingOfTenant: waitingOfApplication,
    maxWaiting,
    refuse: tooMany,
  });
  return {
    async run({ principal, outOfTurn }, rows, work) {
      if (!isLargePage(rows)) return work();
      const { tenantId, applicationId } = holderOf(principal);
      const waiting = fair.enter(tenantId, applicationId);
      const begun = waiting?.begunWithin(waitMs) ?? Promise.resolve();
      try {
        if (waiting) await outOfTurn(() => begun);
        return await work();
      } finally {
        // The edge may have refused the wait.
        waiting?.giveUp(tooMany());
        begun.then(
          () => fair.leave(tenantId, applicationId),
          () => undefined,
        );
      }
    },
  };
}

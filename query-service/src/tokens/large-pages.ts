import { holderOf } from '@token-vault/access';
import { FairPlaces } from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { isLargePage, smallPageBytes, smallTokenBytes, type RowSize } from './large-rows.ts';

/** Half of the places of pages for a tenant, and two for an application: one page may wait for its masks. */
const placesOfTenant = 3;
const placesOfApplication = 2;
const defaultWaitMs = 10_000;

interface LargePageOptions {
  readonly waitMs?: number;
  /** The pages that are worked on at a time. */
  readonly places: number;
  /** Pages of at most so many bytes do not wait. */
  readonly smallBytes: number;
  readonly waitingOfApplication: number;
  readonly maxWaiting: number;
  /** For the refusal. */
  readonly tooMany: string;
}

/** Each page holds a part of its rows, what is opened of them, and what it shows: some 30 MB at most. It waits with its small rows. */
const ofPages: LargePageOptions = {
  places: 6,
  smallBytes: smallPageBytes,
  waitingOfApplication: 64,
  maxWaiting: 512,
  tooMany: 'Too many lists and searches wait to be read.',
};
/** Each read holds one row and what is opened of it: some 12 MB at most. It waits without the row. Eight tenants have places, so that two whose masks are slow hold up no third one. */
const ofTokens: LargePageOptions = {
  places: 24,
  smallBytes: smallTokenBytes,
  waitingOfApplication: 200,
  maxWaiting: 2_000,
  tooMany: 'Too many reads of large tokens wait.',
};

type WaitingRequest = Pick<RequestContext, 'principal' | 'outOfTurn' | 'signal'>;

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
export const createLargePages = (options: Partial<LargePageOptions> = {}): LargePages =>
  limited({ ...ofPages, ...options });

/** The same for the pages of one token that single reads are. */
export const createLargeTokens = (options: Partial<LargePageOptions> = {}): LargePages =>
  limited({ ...ofTokens, ...options });

function limited(options: LargePageOptions): LargePages {
  const { places, smallBytes, waitingOfApplication, maxWaiting, waitMs = defaultWaitMs } = options;
  const refuse = () => new UnavailableError(`${options.tooMany} Nothing was shown; try again.`);
  const fair = new FairPlaces({
    places,
    placesOf: () => placesOfTenant,
    placesOfApplication: () => placesOfApplication,
    waitingOfTenant: waitingOfApplication,
    maxWaiting,
    refuse,
  });
  return {
    async run({ principal, outOfTurn, signal }, rows, work) {
      if (!isLargePage(rows, smallBytes)) return work();
      const { tenantId, applicationId } = holderOf(principal);
      const waiting = fair.enter(tenantId, applicationId);
      const begun = waiting?.begunWithin(waitMs, signal) ?? Promise.resolve();
      try {
        if (waiting) await outOfTurn(() => begun);
        return await work();
      } finally {
        // The edge may have refused the wait.
        waiting?.giveUp(refuse());
        begun.then(
          () => fair.leave(tenantId, applicationId),
          () => undefined,
        );
      }
    },
  };
}

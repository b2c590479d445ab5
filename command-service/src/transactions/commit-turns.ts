import { holderOf } from '@token-vault/access';
import { FairPlaces } from '@token-vault/batching';
import { UnavailableError, type ReadModelName } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';

/** Resolves when the named read models have passed the position, cannot pass it, or the time is over. */
export type WaitForProjections = (
  position: Position,
  timeoutMs: number,
  names: readonly ReadModelName[],
) => Promise<unknown>;

/** A commit of more bytes is large: it takes the read models longer than 20 ms. */
const largeBytes = 256 * 1024;
/** A commit that waits for longer is refused. */
const waitMs = 10_000;
/** A read model that has not reached a commit by then is not awaited any more: the next commit begins. */
const shownWithinMs = 30_000;
/** An application has at most 20 open transactions. */
const waitingOfApplication = 20;
const maxWaiting = 1_000;
/** The read models that apply each write of a transaction. */
const appliedBy = ['tokens', 'log', 'log_summary'] as const satisfies readonly ReadModelName[];

const tooMany = () =>
  new UnavailableError('Other large transactions are being committed. Nothing was done; try again.');

/**
 * A read model applies a commit at once, and does nothing else meanwhile. When it is 10 s behind, the lists of all tenants are refused (rules.md §1). So
 * large commits are made one after the other, in turns of the tenants and of their applications: the next one begins when the read models have
 * applied the one before. Other writes do not wait. Each process has turns of its own.
 */
export class CommitTurns {
  readonly #waitForProjections: WaitForProjections;
  readonly #turns = new FairPlaces({
    places: 1,
    placesOf: () => 1,
    waitingOfTenant: waitingOfApplication,
    maxWaiting,
    refuse: tooMany,
  });

  /** By default nothing shows a commit, so none is awaited. */
  constructor(waitForProjections: WaitForProjections = () => Promise.resolve()) {
    this.#waitForProjections = waitForProjections;
  }

  /**
   * Commits a transaction that stores so many bytes, in its turn. The rights of the caller are those after the wait.
   * @throws UnavailableError when the turn does not come in time; as `RequestContext.renewed`; and the error of `commit`
   */
  async run(
    bytes: number,
    context: RequestContext,
    commit: (context: RequestContext) => Promise<Position | undefined>,
  ): Promise<Position | undefined> {
    if (bytes <= largeBytes) return commit(context);
    const holder = holderOf(context.principal);
    let hasTurn = false;
    const leave = () => {
      if (hasTurn) this.#turns.leave(holder.tenantId, holder.applicationId);
      hasTurn = false;
    };
    try {
      await context.outOfTurn(async () => {
        await this.#turns.enter(holder.tenantId, holder.applicationId)?.begunWithin(waitMs, context.signal);
        hasTurn = true;
      });
      const position = await commit((await context.renewed()) ?? context);
      void this.#shown(position).finally(leave);
      return position;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Each read model is awaited for itself: one that has failed or is paused does not end the wait for the others. */
  async #shown(position: Position | undefined): Promise<void> {
    if (position === undefined) return;
    await Promise.allSettled(
      appliedBy.map((name) => this.#waitForProjections(position, shownWithinMs, [name])),
    );
  }
}

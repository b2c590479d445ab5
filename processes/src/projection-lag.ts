import type { EventStore } from '@token-vault/event-store';
import type { ProjectionStatus } from '@token-vault/projectors';
import type { Metrics } from '@token-vault/observability';

interface Source {
  readonly store: Pick<EventStore, 'head'>;
  readonly status: () => Promise<readonly ProjectionStatus[]>;
}

/** In events, or with EventStoreDB in bytes of its log. */
export function behindOf({ position }: ProjectionStatus, head: bigint): number {
  const difference = head - BigInt(position);
  return difference > 0n ? Number(difference) : 0;
}

export const stalledSecondsOf = (status: ProjectionStatus, head: bigint): number =>
  behindOf(status, head) === 0 ? 0 : Math.max(0, (Date.now() - status.updatedAt.getTime()) / 1000);

/** The positions of the projections, read when Prometheus asks. Every replica gives the same. */
export function measureProjections(metrics: Metrics, { store, status }: Source): void {
  const perProjection = (read: (status: ProjectionStatus, head: bigint) => number) => async () => {
    // The head is read first, so that events appended in between do not look like a lag.
    const head = BigInt(await store.head());
    return Object.fromEntries((await status()).map((each) => [each.name, read(each, head)]));
  };
  metrics.gauge(
    'vault_projection_lag_positions',
    'How far a projection is behind the head of the log; in events, or with EventStoreDB in bytes of its log.',
    'projection',
    perProjection(behindOf),
  );
  metrics.gauge(
    'vault_projection_stalled_seconds',
    'How long a projection that is behind has not moved; 0 for one that is not behind.',
    'projection',
    perProjection(stalledSecondsOf),
  );
  metrics.gauge(
    'vault_projection_live',
    '1 for a projection that is live; 0 when it has failed, is paused, or is older than this release.',
    'projection',
    perProjection(({ status: state }) => (state === 'live' ? 1 : 0)),
  );
}

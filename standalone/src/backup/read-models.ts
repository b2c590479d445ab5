import { setTimeout as sleep } from 'node:timers/promises';
import type { EventStore } from '@token-vault/event-store';
import { projections, startProjectors } from '@token-vault/projectors';
import { BackupError } from './format.ts';

export type ReportProgress = (step: string, done: number, total: number, unit: string) => void;

export const unitOf = ({ hasDensePositions }: Pick<EventStore, 'hasDensePositions'>): string =>
  hasDensePositions ? 'events' : 'positions';

/** The read models are complete before the first request after the start. */
export async function makeReadModels(
  store: EventStore,
  connectionString: string,
  { signal, onProgress }: { readonly signal: AbortSignal; readonly onProgress?: ReportProgress | undefined },
): Promise<void> {
  const head = await store.head();
  const projectors = startProjectors({ store, connectionString });
  try {
    for (;;) {
      signal.throwIfAborted();
      const statuses = await projectors.status();
      const failed = statuses.find(({ status }) => status === 'failed');
      if (failed)
        throw new BackupError(
          `the read model ${failed.name} cannot be made from the log: ${failed.errorCode} at event ${failed.errorEventId}`,
        );
      const positions = statuses.map(({ position }) => Number(position));
      const least = statuses.length < projections.length ? 0 : Math.min(...positions);
      onProgress?.('rebuild read models', least, Number(head), unitOf(store));
      if (least >= Number(head)) return;
      await sleep(200);
    }
  } finally {
    await projectors.close();
  }
}

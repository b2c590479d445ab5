import { InsufficientStorageError, type EventStore } from '@token-vault/event-store';
import { errorFields, type Logger, type Metrics } from '@token-vault/observability';
import type { Space } from '@token-vault/operations';
import { statfs } from 'node:fs/promises';

const mebibyte = 1024 * 1024;
/** Four segments of Postgres's log. Postgres panics when it cannot make the next one. */
const leastReserve = 64 * mebibyte;
const reservedShare = 0.02;
const fullShare = 0.9;
const intervalMs = 1_000;
/** Near the reserve: a busy vault writes tens of MiB a second. */
const shortIntervalMs = 100;

interface DiskSpace {
  readonly freeBytes: number;
  readonly sizeBytes: number;
}

/** The free space of the file system that holds the database, as it was at most a second ago. */
export interface StorageWatch extends Space {
  close(): Promise<void>;
}

export interface StorageOptions {
  /** VAULT_STORAGE_PATH: any directory on that file system. Undefined: this process does not see it, and nothing is refused. */
  readonly path: string | undefined;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'gauge'>;
  /** By default it asks the operating system. */
  readonly spaceAt?: (path: string) => Promise<DiskSpace>;
}

/** The larger of 64 MiB and 2 %. */
const reserveOf = ({ sizeBytes }: DiskSpace): number => Math.max(leastReserve, sizeBytes * reservedShare);

async function diskSpaceAt(path: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(path);
  return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
}

/**
 * Watches the file system at `path`: gauges for Prometheus, one warning when 90 % are in use, and one error when the reserve is reached.
 * From then on `requireSpace` throws, until there is space again. Below the reserve only writes that were accepted before are completed.
 * Where the file system cannot be asked, nothing is refused.
 */
export async function watchStorage(options: StorageOptions): Promise<StorageWatch> {
  const { path, logger, metrics, spaceAt = diskSpaceAt } = options;
  if (path === undefined) return { requireSpace: () => undefined, close: async () => undefined };
  let space: DiskSpace | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  const report = createReporter(logger);

  async function look(at: string): Promise<void> {
    try {
      space = await spaceAt(at);
      report(space);
    } catch (error) {
      if (space) logger.warn(errorFields(error), 'the free space of the database cannot be read');
      space = undefined;
    }
    if (isClosed) return;
    const isNear = space !== undefined && space.freeBytes < 4 * reserveOf(space);
    timer = setTimeout(() => void look(at), isNear ? shortIntervalMs : intervalMs).unref();
  }

  await look(path);
  metrics.gauge('vault_storage_bytes', 'The file system of the database.', 'part', () =>
    space ? { free: space.freeBytes, size: space.sizeBytes, reserve: reserveOf(space) } : {},
  );
  return {
    requireSpace() {
      if (space && space.freeBytes < reserveOf(space)) throw new InsufficientStorageError();
    },
    async close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

type Fill = 'roomy' | 'filling' | 'full';

function fillOf(space: DiskSpace): Fill {
  if (space.freeBytes < reserveOf(space)) return 'full';
  return space.freeBytes < space.sizeBytes * (1 - fullShare) ? 'filling' : 'roomy';
}

/** Logs each change once. */
function createReporter(logger: Logger): (space: DiskSpace) => void {
  let last: Fill = 'roomy';
  return (space) => {
    const fill = fillOf(space);
    if (fill === last) return;
    const sizes = {
      free_bytes: space.freeBytes,
      size_bytes: space.sizeBytes,
      reserve_bytes: reserveOf(space),
    };
    if (fill === 'full') logger.error(sizes, 'the disk of the database is full: writes are refused');
    else if (last === 'full')
      logger.warn(sizes, 'the disk of the database has room again: writes are accepted');
    else if (fill === 'filling') logger.warn(sizes, 'the disk of the database is more than 90 % full');
    last = fill;
  };
}

/** Every write of every entrance is an append: HTTP, reactor code, feeds, housekeeping, proxy, commands. */
export function appendWithSpace(store: EventStore, storage: Space): EventStore {
  return {
    ...store,
    async append(...given) {
      storage.requireSpace();
      return store.append(...given);
    },
  };
}

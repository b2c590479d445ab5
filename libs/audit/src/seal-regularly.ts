import { errorFields } from '@token-vault/observability';
import { lockKeys, whileLocked } from '@token-vault/postgres';
import type { Pool } from 'pg';
import { readCheckpoints, writeCheckpoints } from './checkpoints-file.ts';
import { KnownCheckpoints } from './known-checkpoints.ts';
import { SealWatch } from './seal-watch.ts';
import { sealLog, type SealerOptions } from './sealer.ts';

export interface PooledSealerOptions extends SealerOptions {
  /** The key ring's Postgres. One of its connections holds the lock of the sealer. */
  readonly pool: Pool;
  /** Keeps the known checkpoints between processes. Undefined: they are known as long as this process lives. */
  readonly checkpointsFile: string | undefined;
}

/**
 * As `sealLog`. Undefined when another process is sealing.
 * @throws CheckpointsFileError
 */
export function sealLogOnce(options: PooledSealerOptions): Promise<number | undefined> {
  const isHeld = () => undefined;
  return whileLocked<number | undefined>(options.pool, lockKeys.auditSealer, () => seal(options), { isHeld });
}

async function seal(options: PooledSealerOptions): Promise<number> {
  const { checkpointsFile: file, known = new KnownCheckpoints() } = options;
  if (file === undefined) return sealLog({ ...options, known });
  const kept = await readCheckpoints(file);
  for (const [tenantId, checkpoint] of kept) known.learn(tenantId, checkpoint);
  try {
    return await sealLog({ ...options, known });
  } finally {
    if (isChanged(known, kept)) await writeCheckpoints(file, known);
  }
}

const isChanged = (known: KnownCheckpoints, kept: KnownCheckpoints): boolean =>
  [...known].some(([tenantId, { revision }]) => revision !== kept.get(tenantId)?.revision);

/** Seals the log every `intervalMs`, and once more when closed. Looks twice as often whether it is sealed, by this process or another. */
export function startSealer(options: PooledSealerOptions & { readonly intervalMs?: number }): {
  /** How long the oldest event that is not sealed has waited at most; 0 when there is none. */
  unsealedSeconds(): number;
  close(): Promise<void>;
} {
  const { logger, intervalMs = 60_000, known = new KnownCheckpoints() } = options;
  let running: Promise<unknown> = Promise.resolve();
  const sealOnce = () => {
    running = running
      .then(() => sealLogOnce({ ...options, known }))
      .catch((error: unknown) => logger.warn(errorFields(error), 'the audit log could not be sealed'));
    return running;
  };
  const watch = new SealWatch({ ...options, known });
  let looking: Promise<void> = Promise.resolve();
  const timers = [
    setInterval(() => void sealOnce(), intervalMs),
    // It waits for no pass: one that hangs is told too.
    setInterval(() => void (looking = watch.look()), intervalMs / 2),
  ];
  for (const timer of timers) timer.unref();
  return {
    unsealedSeconds: () => watch.unsealedMs() / 1000,
    async close() {
      for (const timer of timers) clearInterval(timer);
      await Promise.all([sealOnce(), looking]);
    },
  };
}

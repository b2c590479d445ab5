import {
  closeInheritedDescriptors,
  leaveMemoryOutOfCoreDumps,
  lowerBackgroundThreads,
} from '@token-vault/process';
import { banner } from './banner.ts';
import type { RunningStandalone } from './start.ts';

/** Codes of errors whose message is one line that tells the operator what to do. */
const explained = new Set([
  'standalone_not_started',
  'configuration_invalid',
  'postgres_not_started',
  'wrong_root_key',
  'root_key_unusable',
  'root_key_unavailable',
  'schema_too_new',
  'schema_mismatch',
  'restore_unfinished',
  'migration_failed',
  'event_store_access',
]);

function fail(error: unknown): never {
  const code: unknown = (error as { code?: unknown } | null)?.code;
  if (error instanceof Error && typeof code === 'string' && explained.has(code)) {
    process.stderr.write(`vault: ${error.message}\n`);
  } else {
    process.stderr.write(
      `vault: could not start\n${error instanceof Error ? (error.stack ?? error.name) : ''}\n`,
    );
  }
  process.exit(1);
}

/** Resolves when the launcher (`scripts/run.mjs`) has ended. Never resolves without a launcher, as in a container. */
function whenLauncherEnds(): Promise<void> {
  return new Promise((resolve) => {
    if (process.connected) process.once('disconnect', resolve);
  });
}

/** Starts, prints the address, and stops at a signal, with its launcher, or with the database. */
export async function runUntilStopped(start: () => Promise<RunningStandalone>): Promise<void> {
  closeInheritedDescriptors();
  leaveMemoryOutOfCoreDumps();
  lowerBackgroundThreads();
  const launcherEnded = whenLauncherEnds();
  try {
    const vault = await start();
    process.stdout.write(banner(vault));
    let isStopping = false;
    const stop = (exitCode: number) => {
      if (isStopping) return;
      isStopping = true;
      process.stdout.write('stopping …\n');
      vault.stop().then(() => process.exit(exitCode), fail);
    };
    // A second signal changes nothing: Ctrl-C may arrive twice (from the terminal and from npm), and a clean stop is
    // short.
    process.on('SIGINT', () => stop(0));
    process.on('SIGTERM', () => stop(0));
    void launcherEnded.then(() => stop(0));
    void vault.databaseLost.then(() => {
      process.stderr.write('vault: the database ended unexpectedly\n');
      stop(1);
    });
  } catch (error) {
    fail(error);
  }
}

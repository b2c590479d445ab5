import {
  closeInheritedDescriptors,
  leaveMemoryOutOfCoreDumps,
  lowerBackgroundThreads,
} from '@token-vault/process';
import { banner } from './banner.ts';
import type { OnAnswering, RunningStandalone } from './start.ts';

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

const usage = `usage: npm start | npm run stack
Neither takes arguments. Settings are variables of the environment, such as VAULT_PORT and VAULT_DATA_DIR:
docs/reference/configuration.md. Commands for operators: npm run --silent vault -- --help
`;

/** A server that starts although its arguments say something else would surprise its operator. The arguments are not repeated: one may be a secret. */
function refuseArguments(given: readonly string[]): void {
  if (given.length === 0) return;
  const asksForHelp = given.every((argument) => ['--help', '-h', 'help'].includes(argument));
  (asksForHelp ? process.stdout : process.stderr).write(usage);
  process.exit(asksForHelp ? 0 : 2);
}

/**
 * Starts, prints the address, and stops at a signal, with its launcher, or with the database. A signal before `start` calls `onAnswering`
 * ends the process at once.
 */
export async function runUntilStopped(
  start: (onAnswering: OnAnswering) => Promise<RunningStandalone>,
): Promise<void> {
  refuseArguments(process.argv.slice(2));
  closeInheritedDescriptors();
  leaveMemoryOutOfCoreDumps();
  lowerBackgroundThreads();
  const launcherEnded = whenLauncherEnds();
  let isStopping = false;
  const endAfter = (stop: () => Promise<void>, exitCode: number) => {
    // A second signal changes nothing: Ctrl-C may arrive twice (from the terminal and from npm), and a clean stop is short.
    if (isStopping) return;
    isStopping = true;
    process.stdout.write('stopping …\n');
    stop().then(() => process.exit(exitCode), fail);
  };
  try {
    const vault = await start((stop) => {
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => endAfter(stop, 0));
      void launcherEnded.then(() => endAfter(stop, 0));
    });
    if (isStopping) return;
    process.stdout.write(banner(vault));
    void vault.databaseLost.then(() => {
      process.stderr.write('vault: the database ended unexpectedly\n');
      endAfter(() => vault.stop(), 1);
    });
  } catch (error) {
    // What a start that was told to stop could not complete is no failure.
    if (!isStopping) fail(error);
  }
}

import { countFindings } from '@token-vault/audit';
import { systemClock } from '@token-vault/operations';
import { readEventStoreChoice } from '@token-vault/processes';
import { Option, type Command } from 'commander';
import path from 'node:path';
import { createBackup } from '../backup/create.ts';
import { identityOf } from '../backup/log-elsewhere.ts';
import { restoreBackup, type RestoreReport } from '../backup/restore.ts';
import { writeTombstones } from '../backup/tombstones.ts';
import { readConfig } from '../config.ts';
import { CommandError } from './failure.ts';
import { withParts, type Parts } from './parts.ts';
import { reportProgress, type ProgressReport } from './progress-line.ts';
import { refusalOf, sealNow } from './seal.ts';
import type { Terminal } from './terminal.ts';

const keysBeside = (directory: string): string => `${directory.replace(/\/+$/, '')}.keys`;

async function create(parts: Parts, directory: string, keys: string, terminal: Terminal): Promise<void> {
  const { database, store } = parts;
  // The log is sealed first: signed events cannot be altered in the backup unnoticed.
  const sealed = await sealNow(parts);
  for (const tenantId of sealed?.refused ?? []) terminal.note(refusalOf(tenantId));
  const logElsewhere = await findLogElsewhere(parts);
  const head = Number(await store.head());
  const progress = reportProgress(terminal, 'back up', 0);
  try {
    const { log } = await createBackup({
      url: database.url,
      logElsewhere,
      directories: { log: path.resolve(directory), keys: path.resolve(keys) },
      now: systemClock.now(),
      signal: terminal.interrupted,
      onProgress: (name, rows) => {
        // Events written during the backup are not in it, so the total may be exceeded or not reached.
        if (name === 'events') progress.update(Math.min(rows, head), head);
      },
    });
    progress.end();
    terminal.print(`backup: ${directory}`);
    terminal.print(`key ring: ${keys}`);
    terminal.print(`position: ${log.position}`);
  } finally {
    progress.end();
  }
  terminal.note(
    'Store the key ring apart from the log, and for a short time only: it revives what is deleted from now on.',
  );
  terminal.note('The root key is in neither.');
  if (logElsewhere)
    terminal.note(
      'The log is in EventStoreDB: its own copy must be OLDER than this one (docs/how-to/back-up-and-restore.md).',
    );
}

/** The log in EventStoreDB as it is now, undefined when the log is in Postgres. */
const findLogElsewhere = async ({ eventStore, store }: Parts) =>
  eventStore.kind === 'postgres' ? undefined : identityOf(store);

interface RestoreFlags {
  /** False with `--no-keys`. */
  readonly keys: string | boolean;
  readonly tombstones?: string;
  readonly despiteFindings?: true;
  readonly despiteNewerLog?: true;
}

async function restore(directory: string, flags: RestoreFlags, terminal: Terminal): Promise<void> {
  const { keys, tombstones, despiteFindings, despiteNewerLog } = flags;
  const keysAt = keys === true ? keysBeside(directory) : keys;
  const progress = reportSteps(terminal);
  try {
    const report = await restoreBackup({
      config: readConfig(terminal.environment),
      eventStore: readEventStoreChoice(terminal.environment),
      log: directory,
      keys: keysAt === false ? undefined : keysAt,
      tombstones,
      isDespiteFindings: despiteFindings === true,
      isDespiteNewerLog: despiteNewerLog === true,
      signal: terminal.interrupted,
      onStep: (step) => terminal.note(step),
      onProgress: progress.update,
    });
    progress.end();
    printReport(report, terminal);
    if (keysAt === false) terminal.note('Without its key ring nothing in it can be opened.');
    else if (tombstones === undefined)
      terminal.note(
        'Without tombstones everything that was deleted since is back. Delete it again before you start the vault.',
      );
  } finally {
    progress.end();
  }
}

/** The progress of several steps, one after the other. */
function reportSteps(terminal: Terminal) {
  let label = '';
  let current: ProgressReport | undefined;
  const end = (): void => {
    current?.end();
    current = undefined;
    label = '';
  };
  return {
    end,
    update: (step: string, ...progress: Parameters<ProgressReport['update']>): void => {
      if (label !== step) {
        end();
        current = reportProgress(terminal, step, 0);
        label = step;
      }
      current?.update(...progress);
    },
  };
}

function printReport(report: RestoreReport, terminal: Terminal): void {
  terminal.print(`restored: ${report.root}`);
  terminal.print(`position: ${report.position}`);
  terminal.print(`keys left out: ${report.keysLeftOut}`);
  terminal.print(`ended by the log: ${report.ended}`);
  const { events, checkpoints, unsealed } = report.audit;
  terminal.print(
    `audit: ${events} events, ${checkpoints} checkpoints, ${unsealed} newer than the last, ${countFindings(report.audit)} findings`,
  );
  terminal.note(`It is the vault as it was at ${report.createdAt}.`);
}

export function addBackupCommands(program: Command, terminal: Terminal): void {
  const backup = program.command('backup').description('back up a vault while it serves, and restore it');
  addCreate(backup, terminal);
  addTombstones(backup, terminal);
  addRestore(backup, terminal);
}

function addCreate(backup: Command, terminal: Terminal): void {
  backup
    .command('create')
    .description('write the log to a new directory, and the key ring to another')
    .argument('<directory>')
    .option('--keys <directory>', 'for the key ring; <directory>.keys if not given')
    .action((directory: string, { keys = keysBeside(directory) }: { keys?: string }) =>
      withParts(terminal, (parts) => create(parts, directory, keys, terminal)),
    );
}

function addTombstones(backup: Command, terminal: Terminal): void {
  backup
    .command('tombstones')
    .description(
      'write the list of living data keys, for a restore of any earlier backup; repeat it often, keep it elsewhere',
    )
    .argument('<file>')
    // Scripts for the first release give a backup here. The file now serves every backup, so the option is ignored.
    .addOption(new Option('--since <directory>', 'not needed any more').hideHelp())
    .action((file: string) =>
      withParts(terminal, async (parts) => {
        const options = {
          url: parts.database.url,
          logElsewhere: await findLogElsewhere(parts),
          file,
          now: systemClock.now(),
          signal: terminal.interrupted,
        };
        const { liveKeys, tenants, position } = await writeTombstones(options);
        terminal.print(`${file}: ${liveKeys} data keys live, ${tenants} tenants were destroyed`);
        terminal.print(`position: ${position}`);
      }),
    );
}

function addRestore(backup: Command, terminal: Terminal): void {
  backup
    .command('restore')
    .description('make a vault in an empty data directory, or an empty DATABASE_URL, and verify it')
    .argument('<directory>')
    .option('--keys <directory>', 'the directory of the key ring; <directory>.keys if not given', true)
    .option('--no-keys', 'restore the log alone: its data can never be opened')
    .option(
      '--tombstones <file>',
      'load only the data keys that it lists, and record the end of the tokens of the others',
    )
    .option('--despite-findings', 'restore a log that does not match its signatures')
    .option(
      '--despite-newer-log',
      'with a log in EventStoreDB that is newer than the key ring: end what was made since',
    )
    .action((directory: string, flags: RestoreFlags) => {
      if (flags.keys === false && flags.tombstones !== undefined)
        throw new CommandError('--tombstones needs a key ring');
      return restore(directory, flags, terminal);
    });
}

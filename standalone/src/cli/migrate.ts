import type { Command } from 'commander';
import { withParts } from './parts.ts';
import type { Terminal } from './terminal.ts';

/** What services wait for: they never change tables themselves, and a vault in one process does it at its start. */
export function addMigrateCommand(program: Command, terminal: Terminal): void {
  program
    .command('migrate')
    .description('bring the tables to this release; any number of times, and beside a vault that runs')
    .action(() =>
      // Every command begins with it, under a lock of Postgres.
      withParts(terminal, () => {
        terminal.print('the tables are those of this release');
        return Promise.resolve();
      }),
    );
}

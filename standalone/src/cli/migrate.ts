import type { Command } from 'commander';
import { withParts } from './parts.ts';
import type { Terminal } from './terminal.ts';

/**
 * Makes the schema that services wait for. Services never change tables themselves. A vault in one process migrates
 * at its start.
 */
export function addMigrateCommand(program: Command, terminal: Terminal): void {
  program
    .command('migrate')
    .description('bring the tables to this release; any number of times, and beside a vault that runs')
    .action(() =>
      // `withParts` migrates at the beginning of every command, under a lock of Postgres.
      withParts(terminal, () => {
        terminal.print('the tables are those of this release');
        return Promise.resolve();
      }),
    );
}

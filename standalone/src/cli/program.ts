import { Command } from 'commander';
import { addApplicationCommands } from './applications.ts';
import { addAuditCommands } from './audit.ts';
import { addBackupCommands } from './backup.ts';
import { addErasureCommands } from './erasure.ts';
import { addKeyCommands } from './keys.ts';
import { addMigrateCommand } from './migrate.ts';
import { addProjectionCommands } from './projections.ts';
import { addProxyCommands } from './proxies.ts';
import { addRunCommands } from './runs.ts';
import { addTenantCommands } from './tenants.ts';
import { addTransferCommands } from './transfer.ts';
import type { Terminal } from './terminal.ts';

/** `npm run vault -- <command>`: the commands of an operator on a vault that runs or is stopped. */
export function createProgram(terminal: Terminal): Command {
  const program = new Command('vault')
    .description(
      'Operate a vault. It is found as it is started: VAULT_DATA_DIR, DATABASE_URL, VAULT_ROOT_KEY.',
    )
    .helpCommand(false)
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error:/, 'vault:')) });
  addMigrateCommand(program, terminal);
  addTenantCommands(program, terminal);
  addApplicationCommands(program, terminal);
  addProxyCommands(program, terminal);
  addRunCommands(program, terminal);
  addProjectionCommands(program, terminal);
  addKeyCommands(program, terminal);
  addAuditCommands(program, terminal);
  addErasureCommands(program, terminal);
  addBackupCommands(program, terminal);
  addTransferCommands(program, terminal);
  return program;
}

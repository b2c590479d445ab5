import { leaveMemoryOutOfCoreDumps } from '@token-vault/process';
import { complaintOf } from './cli/failure.ts';
import { leaveRoot } from './cli/leave-root.ts';
import { createProgram } from './cli/program.ts';
import { processTerminal } from './cli/terminal.ts';

leaveMemoryOutOfCoreDumps();
const terminal = processTerminal();
try {
  const program = createProgram(terminal).hook('preAction', () => leaveRoot(terminal));
  await program.parseAsync(process.argv);
} catch (error) {
  terminal.note(`vault: ${complaintOf(error)}`);
  process.exitCode = 1;
}

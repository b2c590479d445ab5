import { leaveMemoryOutOfCoreDumps } from '@token-vault/process';
import { complaintOf } from './cli/failure.ts';
import { createProgram } from './cli/program.ts';
import { processTerminal } from './cli/terminal.ts';

leaveMemoryOutOfCoreDumps();
const terminal = processTerminal();
try {
  await createProgram(terminal).parseAsync(process.argv);
} catch (error) {
  terminal.note(`vault: ${complaintOf(error)}`);
  process.exitCode = 1;
}

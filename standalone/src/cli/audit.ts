import { createProjectionAdmin } from '@token-vault/projectors';
import { parsePosition, type Position } from '@token-vault/event-store';
import { silentLogger } from '@token-vault/observability';
import { systemClock } from '@token-vault/operations';
import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  auditPublicKey,
  exportAudit,
  sealLogOnce,
  verifyAudit,
  type AuditReport,
  type ExportFormat,
} from '@token-vault/audit';
import { uuid } from './arguments.ts';
import { CommandError } from './failure.ts';
import { withParts, type Parts } from './parts.ts';
import { reportProgress } from './progress-line.ts';
import { verifyAll } from './projections.ts';
import type { Terminal } from './terminal.ts';

interface Range {
  readonly from?: Position;
  readonly to?: Position;
}

function position(text: string): Position {
  try {
    return parsePosition(text);
  } catch {
    throw new InvalidArgumentError('It is not a position.');
  }
}

const summary = ({ events, checkpoints, unsealed, after, through }: AuditReport): string =>
  `${events} events after ${after} up to ${through}, ${checkpoints} checkpoints; ${unsealed} events are newer than the last checkpoint`;

async function verifyEvents(parts: Parts, range: Range, terminal: Terminal): Promise<AuditReport> {
  const { store, keyRing } = parts;
  const signal = terminal.interrupted;
  const progress = reportProgress(terminal, 'verify events', Number(range.from ?? 0));
  let counted = 0;
  const onProgress = (at: Position, until: Position, events: number) => {
    counted += events;
    progress.update(Number(at), Number(until), 'events', store.hasDensePositions ? undefined : counted);
  };
  try {
    return await verifyAudit({ ...range, store, keyRing: await keyRing(), signal, onProgress });
  } finally {
    progress.end();
  }
}

async function verify(parts: Parts, range: Range, hasRows: boolean, terminal: Terminal): Promise<void> {
  const report = await verifyEvents(parts, range, terminal);
  for (const { position: at, tenantId, problem } of report.findings)
    terminal.print(`position ${at}, tenant ${tenantId}: ${problem}`);
  for (const tenantId of report.withoutKeys)
    terminal.note(
      `note: tenant ${tenantId} is deleted; its checkpoints are checked by the key they name themselves`,
    );
  if (report.findings.length > 0)
    throw new CommandError(`the log was altered: ${report.findings.length} findings in ${summary(report)}`);
  if (hasRows) {
    const admin = createProjectionAdmin({ store: parts.store, connectionString: parts.database.url });
    await verifyAll({ admin, parts, terminal });
  }
  terminal.print(`the log is as it was signed: ${summary(report)}`);
}

export function addAuditCommands(program: Command, terminal: Terminal): void {
  const audit = program.command('audit').description('prove that the log was not altered');
  addVerify(audit, terminal);
  addSeal(audit, terminal);
  addPublicKey(audit, terminal);
  addExport(audit, terminal);
}

function addVerify(audit: Command, terminal: Terminal): void {
  audit
    .command('verify')
    .description('compare each event with the signatures, and each row of the read models with the events')
    .option('--from <position>', 'begin at the last checkpoints before it', position)
    .option('--to <position>', 'end there', position)
    .option('--no-rows', 'leave out the rows of the read models')
    .action(({ from, to, rows }: Range & { readonly rows: boolean }) => {
      const range = { ...(from !== undefined && { from }), ...(to !== undefined && { to }) };
      return withParts(terminal, (parts) => verify(parts, range, rows, terminal));
    });
}

function addSeal(audit: Command, terminal: Terminal): void {
  audit
    .command('seal')
    .description('sign checkpoints now; a running vault does so every minute')
    .action(() =>
      withParts(terminal, async ({ pool, store, keyRing }) => {
        const options = { pool, store, keyRing: await keyRing(), clock: systemClock, logger: silentLogger };
        const signed = await sealLogOnce(options);
        if (signed === undefined) throw new CommandError('another process is signing right now');
        terminal.print(`${signed} checkpoints signed`);
      }),
    );
}

function addPublicKey(audit: Command, terminal: Terminal): void {
  audit
    .command('public-key')
    .description('of a tenant: it verifies the checkpoints and the certificates of erasure')
    .requiredOption('--tenant <id>', 'whose', uuid)
    .action(({ tenant }: { readonly tenant: string }) =>
      withParts(terminal, async ({ keyRing }) =>
        terminal.print(await auditPublicKey(await keyRing(), tenant)),
      ),
    );
}

function addExport(audit: Command, terminal: Terminal): void {
  audit
    .command('export')
    .description('the events of a tenant with their hashes and signed checkpoints, to standard output')
    .requiredOption('--tenant <id>', 'whose log', uuid)
    .addOption(new Option('--format <format>').choices(['jsonl', 'csv']).default('jsonl'))
    .option('--from <position>', 'begin after it', position)
    .option('--to <position>', 'end there', position)
    .action((options: Range & { readonly tenant: string; readonly format: ExportFormat }) =>
      withParts(terminal, async ({ store }) => {
        for await (const line of exportAudit({ ...options, store, tenantId: options.tenant }))
          await terminal.printDrained(line);
      }),
    );
}

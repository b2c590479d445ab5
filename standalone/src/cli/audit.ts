import { createSignatureCheck } from '@token-vault/command-service';
import { printable } from '@token-vault/contracts';
import { findSchemaDifferences } from '@token-vault/processes';
import { createProjectionAdmin } from '@token-vault/projectors';
import { parsePosition, type Position } from '@token-vault/event-store';
import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  auditPublicKey,
  countFindings,
  exportAudit,
  readCheckpoints,
  verifyAudit,
  watchKeys,
  writeCheckpoints,
  type AuditReport,
  type ExportFormat,
} from '@token-vault/audit';
import { uuid } from './arguments.ts';
import { CommandError } from './failure.ts';
import { withParts, type Parts } from './parts.ts';
import { reportProgress } from './progress-line.ts';
import { verifyAll } from './projections.ts';
import { refusalOf, sealNow } from './seal.ts';
import type { Terminal } from './terminal.ts';

interface Range {
  readonly from?: Position;
  readonly to?: Position;
}

interface VerifyFlags extends Range {
  readonly rows: boolean;
  readonly against?: string;
  readonly note?: string;
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

/** The checkpoints that the vault keeps beside the log, and those of the file that the operator names. */
async function knownTo({ checkpointsFile }: Parts, against: string | undefined) {
  const own = await readCheckpoints(checkpointsFile);
  if (against === undefined) return [own];
  const noted = await readCheckpoints(against);
  if ([...noted].length === 0) throw new CommandError(`${against} names no checkpoint`);
  return [own, noted];
}

async function verifyEvents(
  parts: Parts,
  { from, to, against }: VerifyFlags,
  terminal: Terminal,
): Promise<AuditReport> {
  const { store, keyRing } = parts;
  const signal = terminal.interrupted;
  const progress = reportProgress(terminal, 'verify events', Number(from ?? 0));
  let counted = 0;
  const onProgress = (at: Position, until: Position, events: number) => {
    counted += events;
    progress.update(Number(at), Number(until), 'events', store.hasDensePositions ? undefined : counted);
  };
  try {
    const known = await knownTo(parts, against);
    const sources = { store, keyRing: watchKeys(await keyRing()) };
    const checkSignatures = createSignatureCheck(sources);
    return await verifyAudit({ from, to, known, ...sources, checkSignatures, signal, onProgress });
  } finally {
    progress.end();
  }
}

/** Prints what in the schema is not of this release, and gives how much that is. */
async function verifySchema({ pool }: Parts, terminal: Terminal): Promise<number> {
  const differences = await findSchemaDifferences(pool);
  for (const difference of differences) terminal.print(`schema: ${printable(difference)}`);
  return differences.length;
}

async function verify(parts: Parts, flags: VerifyFlags, terminal: Terminal): Promise<void> {
  const differences = await verifySchema(parts, terminal);
  const report = await verifyEvents(parts, flags, terminal);
  for (const { position: at, tenantId, problem } of report.findings)
    terminal.print(printable(`position ${at}, tenant ${tenantId}: ${problem}`));
  if (report.moreFindings > 0) terminal.print(`and ${report.moreFindings} more findings`);
  for (const tenantId of report.withoutKeys)
    terminal.note(
      `note: tenant ${tenantId} is deleted; its checkpoints are checked by the key they name themselves, its events by nothing else`,
    );
  if (report.findings.length > 0)
    throw new CommandError(`the log was altered: ${countFindings(report)} findings in ${summary(report)}`);
  if (differences > 0)
    throw new CommandError(`the schema is not that of this release: ${differences} differences`);
  if (flags.note !== undefined) await writeCheckpoints(flags.note, report.last);
  if (flags.rows) {
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
    .description(
      'compare the schema with that of this release, each event with the signatures, and each row of the read models with the events',
    )
    .option('--from <position>', 'begin at the last checkpoints before it', position)
    .option('--to <position>', 'end there', position)
    .option('--no-rows', 'leave out the rows of the read models')
    .option('--against <file>', 'and with the checkpoints that were noted in this file')
    .option(
      '--note <file>',
      'write the last checkpoint of each tenant into this file, when nothing was altered',
    )
    .action((flags: VerifyFlags) => withParts(terminal, (parts) => verify(parts, flags, terminal)));
}

function addSeal(audit: Command, terminal: Terminal): void {
  audit
    .command('seal')
    .description('sign checkpoints now; a running vault does so every minute')
    .option(
      '--whole',
      'read the whole log, and sign also what was left out while the log of a tenant was not sealed',
    )
    .action(({ whole }: { readonly whole?: true }) =>
      withParts(terminal, async (parts) => {
        const sealed = await sealNow(parts, { isWhole: whole === true });
        if (!sealed) throw new CommandError('another process is signing right now');
        terminal.print(`${sealed.signed} checkpoints signed`);
        if (sealed.refused.length > 0) throw new CommandError(sealed.refused.map(refusalOf).join('; '));
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

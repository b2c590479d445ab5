import {
  createProjectionAdmin,
  projections as allProjections,
  RebuildFailedError,
  type ProjectionAdmin,
  type ProjectionStatus,
  type RunOptions,
  type Verification,
} from '@token-vault/projectors';
import type { Command } from 'commander';
import { CommandError } from './failure.ts';
import { withParts, type Parts } from './parts.ts';
import { reportProgress } from './progress-line.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';

export interface Work {
  readonly admin: ProjectionAdmin;
  readonly parts: Parts;
  readonly terminal: Terminal;
}

const withAdmin = (terminal: Terminal, work: (work: Work) => Promise<void>): Promise<void> =>
  withParts(terminal, (parts) => {
    const admin = createProjectionAdmin({ store: parts.store, connectionString: parts.database.url });
    return work({ admin, parts, terminal });
  });

/** Positions have up to 64 bits. The shown number may be rounded. */
const shown = (position: string): number => Number(position);

function statusRow(status: ProjectionStatus, head: string): string[] {
  const { name, version, position, rebuild } = status;
  const difference = BigInt(head) - BigInt(position);
  const behind = String(difference > 0n ? difference : 0n);
  const error =
    status.errorCode === undefined ? '' : `${status.errorCode} at event ${status.errorEventId ?? '?'}`;
  return [
    name,
    String(version),
    status.status,
    position,
    behind,
    rebuild ? rebuildCell(rebuild, head) : '',
    error,
  ];
}

function rebuildCell(rebuild: NonNullable<ProjectionStatus['rebuild']>, head: string): string {
  const percent =
    head === '0' ? 100 : Math.min(100, Math.floor((shown(rebuild.position) / shown(head)) * 100));
  const purpose = rebuild.purpose === 'swap' ? 'rebuild' : 'verify';
  const error =
    rebuild.errorCode === undefined ? '' : ` ${rebuild.errorCode} at event ${rebuild.errorEventId ?? '?'}`;
  return `${purpose} ${rebuild.status} ${percent} %${error}`;
}

async function showStatus({ admin, parts, terminal }: Work, isJson: boolean): Promise<void> {
  const statuses = await admin.status();
  const head = await parts.store.head();
  if (isJson) {
    for (const status of statuses) terminal.print(JSON.stringify({ ...status, head }));
    return;
  }
  const names = ['name', 'version', 'status', 'position', 'behind', 'rebuild', 'error'];
  terminal.print(
    table(
      names,
      statuses.map((status) => statusRow(status, head)),
    ),
  );
}

/** Runs work that reports its position. The first position may be the one that an earlier run reached. */
async function reported<Result>(
  { admin, terminal, parts }: Work,
  label: string,
  name: string,
  run: (options: RunOptions) => Promise<Result>,
): Promise<Result> {
  const before = (await admin.status()).find((status) => status.name === name)?.rebuild?.position;
  // Where a position does not count events, it tells the share alone.
  const isCounted = parts.store.hasDensePositions;
  let counted = 0;
  const report = reportProgress(terminal, label, shown(before ?? '0'));
  try {
    return await run({
      signal: terminal.interrupted,
      onProgress: (position, until, events) => {
        counted += events;
        report.update(shown(position), shown(until), 'events', isCounted ? undefined : counted);
      },
    });
  } finally {
    report.end();
  }
}

async function rebuild(work: Work, name: string): Promise<void> {
  const run = (options: RunOptions) => work.admin.rebuild(name, options);
  const outcome = await reported(work, `rebuild ${name}`, name, run);
  if (outcome === 'swapped') work.terminal.print(`${name}: rebuilt`);
  else if (outcome === 'cancelled') throw new CommandError(`the rebuild of ${name} was cancelled`);
  else throw new CommandError(`interrupted; to go on: vault projections rebuild ${name}`);
}

function describeDifference({ tables }: Verification): string {
  return tables
    .filter(({ surplus, missing }) => surplus > 0 || missing > 0)
    .map(
      ({ table: of, surplus, missing, keys }) =>
        `${of} has ${surplus} rows too many and lacks ${missing} (${keys.join('; ')})`,
    )
    .join('; ');
}

/** @throws CommandError when the tables differ from the log, with the number of differing rows. */
async function verifyRows(work: Work, name: string): Promise<void> {
  const run = (options: RunOptions) => work.admin.verify(name, options);
  const found = await reported(work, `verify ${name}`, name, run);
  if (!found) throw new CommandError(`the verification of ${name} was ended before it was done`);
  if (!found.isEqual)
    throw new CommandError(
      `${name} is not what the log gives: ${describeDifference(found)} (up to ${found.position})`,
    );
  const rows = found.tables.reduce((sum, each) => sum + each.rows, 0);
  work.terminal.print(
    `${name}: ${rows} rows in ${found.tables.length} tables are what the log gives, up to ${found.position}`,
  );
}

/** Verifies each projection, also after one that differs or cannot be made. @throws CommandError naming those */
export async function verifyAll(work: Work): Promise<void> {
  const failures: string[] = [];
  for (const { name } of allProjections) {
    try {
      await verifyRows(work, name);
    } catch (error) {
      const isOfProjection = error instanceof CommandError || error instanceof RebuildFailedError;
      if (!isOfProjection || work.terminal.interrupted.aborted) throw error;
      failures.push(error.message);
    }
  }
  if (failures.length > 0) throw new CommandError(failures.join('; '));
}

async function change({ admin, terminal }: Work, verb: 'pause' | 'resume', name: string): Promise<void> {
  const changed = await admin[verb](name);
  if (changed === 'nothing') throw new CommandError(`${name}: there is nothing to ${verb}`);
  terminal.print(`${name}: ${changed === 'rebuild' ? 'rebuild' : 'live projection'} ${verb}d`);
}

async function cancel({ admin, terminal }: Work, name: string): Promise<void> {
  if (!(await admin.cancel(name))) throw new CommandError(`${name}: there is no rebuild to cancel`);
  terminal.print(`${name}: rebuild cancelled`);
}

export function addProjectionCommands(program: Command, terminal: Terminal): void {
  const group = program.command('projections').description('see, rebuild and check the read models');
  const run: Run = (work) => withAdmin(terminal, work);

  group
    .command('status')
    .description('the status and position of each projection')
    .option('--json', 'one JSON object a line')
    .action(({ json }: { json?: true }) => run((work) => showStatus(work, json === true)));

  addRebuild(group, run);
  addVerify(group, run);

  for (const verb of ['pause', 'resume'] as const) {
    group
      .command(verb)
      .description(`${verb} a rebuild if there is one, else the live projection`)
      .argument('<name>')
      .action((name: string) => run((work) => change(work, verb, name)));
  }

  group
    .command('cancel')
    .description('drop a rebuild; the live read model is not touched')
    .argument('<name>')
    .action((name: string) => run((work) => cancel(work, name)));
}

type Run = (work: (work: Work) => Promise<void>) => Promise<void>;

function requireOneOrAll(name: string | undefined, all: true | undefined): void {
  if ((name === undefined) !== (all === true))
    throw new CommandError('give the name of a projection, or --all');
}

function addRebuild(group: Command, run: Run): void {
  group
    .command('rebuild')
    .description('make a read model again from the log, while the present one serves; repeat it to go on')
    .argument('[name]')
    .option('--all', 'each projection, one after the other')
    .action((name: string | undefined, { all }: { all?: true }) => {
      requireOneOrAll(name, all);
      const names = name === undefined ? allProjections.map((each) => each.name) : [name];
      return run(async (work) => {
        for (const each of names) await rebuild(work, each);
      });
    });
}

function addVerify(group: Command, run: Run): void {
  group
    .command('verify')
    .description('compare a read model, row by row, with what the log gives; status 1 when they differ')
    .argument('[name]')
    .option('--all', 'each projection, one after the other')
    .action((name: string | undefined, { all }: { all?: true }) => {
      requireOneOrAll(name, all);
      return run((work) => (name === undefined ? verifyAll(work) : verifyRows(work, name)));
    });
}

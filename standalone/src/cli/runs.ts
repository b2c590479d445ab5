import {
  invocationPage,
  invocationStates,
  type Invocation,
  type InvocationRunState,
} from '@token-vault/contracts';
import { Option, type Command } from 'commander';
import { uuid } from './arguments.ts';
import { pageSize, tenantQueries } from './operator.ts';
import { withParts, type Parts } from './parts.ts';
import { printableJson, table } from './table.ts';
import type { Terminal } from './terminal.ts';

interface Flags {
  readonly tenant: string;
  readonly reactor?: string;
  readonly state?: InvocationRunState;
  readonly json?: true;
}

const head = ['id', 'reactor', 'mode', 'state', 'invoked at', 'ms', 'error', 'delivery'];

const rowOf = ({
  id,
  reactor,
  mode,
  state,
  invoked_at,
  duration_ms,
  error,
  delivery,
}: Invocation): string[] => [
  id,
  reactor.id,
  mode,
  state,
  invoked_at,
  duration_ms === undefined ? '' : String(duration_ms),
  error ? `${error.status} ${error.class}` : '',
  delivery?.state ?? '',
];

/** The newest page only: a tenant may have millions of runs. */
async function list(
  parts: Parts,
  { tenant, reactor, state, json }: Flags,
  terminal: Terminal,
): Promise<void> {
  const { queries, context } = await tenantQueries(parts, tenant, ['runs']);
  const query = { reactor_id: reactor, state, page: 1, size: pageSize };
  const { body } = await queries.listInvocations({ params: undefined, query, body: undefined }, context);
  const { data, pagination } = invocationPage.parse(body);
  if (json) for (const run of data) terminal.print(printableJson(run));
  else terminal.print(table(head, data.map(rowOf)));
  const { total_items: total } = pagination;
  if (total > data.length) terminal.note(`note: the newest ${data.length} of ${total} runs`);
}

export function addRunCommands(program: Command, terminal: Terminal): void {
  program
    .command('runs')
    .description('see the runs of reactors')
    .command('list')
    .description('the newest runs of a tenant: their states, times and classes of errors')
    .requiredOption('--tenant <id>', 'whose runs', uuid)
    .option('--reactor <id>', 'only those of this reactor', uuid)
    .addOption(new Option('--state <state>', 'only those in this state').choices(invocationStates))
    .option('--json', 'one JSON object a line')
    .action((flags: Flags) => withParts(terminal, (parts) => list(parts, flags, terminal)));
}

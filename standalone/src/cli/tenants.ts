import { listTenants } from '@token-vault/command-service';
import { plans, type Plan, printable } from '@token-vault/contracts';
import { Option, type Command } from 'commander';
import { CommandError } from './failure.ts';
import { tenantCommands, waitFor } from './operator.ts';
import { withParts } from './parts.ts';
import { printableJson, table } from './table.ts';
import type { Terminal } from './terminal.ts';
import { uuid } from './arguments.ts';

export function addTenantCommands(program: Command, terminal: Terminal): void {
  const tenants = program.command('tenants').description('make and list tenants, change their plans');
  addCreate(tenants, terminal);
  addList(tenants, terminal);
  addSetPlan(tenants, terminal);
}

function addCreate(tenants: Command, terminal: Terminal): void {
  const planOption = new Option('--plan <plan>', 'the plan of the tenant: its features').choices(plans);
  tenants
    .command('create')
    .description('make a tenant and its management application, whose key is printed once')
    .argument('<name>')
    .addOption(planOption.default('standard' satisfies Plan))
    .action((name: string, { plan }: { plan: Plan }) =>
      withParts(terminal, async (parts) => {
        if (name.trim() === '' || name.length > 200)
          throw new CommandError('the name must be 1 to 200 characters');
        const made = await (await tenantCommands(parts)).create({ name, plan });
        await waitFor(parts, made.position, terminal);
        terminal.print(`tenant: ${made.tenantId}`);
        terminal.print(`management key: ${made.management.key ?? ''}`);
        terminal.note('The key is not shown again.');
      }),
    );
}

function addList(tenants: Command, terminal: Terminal): void {
  tenants
    .command('list')
    .description('all tenants that are not deleted')
    .option('--json', 'one JSON object a line')
    .action(({ json }: { json?: true }) =>
      withParts(terminal, async ({ pool }) => {
        const rows: string[][] = [];
        for await (const { id, name, plan, createdAt } of listTenants(pool)) {
          const created_at = createdAt.toISOString();
          if (json) terminal.print(printableJson({ id, name, plan, created_at }));
          else rows.push([id, plan, created_at, printable(name)]);
        }
        if (!json) terminal.print(table(['id', 'plan', 'created at', 'name'], rows));
      }),
    );
}

function addSetPlan(tenants: Command, terminal: Terminal): void {
  tenants
    .command('set-plan')
    .description('change the plan of a tenant')
    .argument('<id>', 'of the tenant', uuid)
    .addArgument(tenants.createArgument('<plan>').choices(plans))
    .action((id: string, plan: Plan) =>
      withParts(terminal, async (parts) => {
        const position = await (await tenantCommands(parts)).setPlan(id, plan);
        await waitFor(parts, position, terminal);
        terminal.print(
          position === undefined ? `tenant ${id} has the plan ${plan} already` : `tenant ${id}: ${plan}`,
        );
      }),
    );
}

import { createTenantCommands, listTenants, type TenantCommands } from '@token-vault/command-service';
import {
  applicationTypes,
  createApplicationBody,
  permissions,
  plans,
  type CreateApplicationBody,
  type Plan,
} from '@token-vault/contracts';
import { createAuditTrail, systemClock } from '@token-vault/operations';
import { silentLogger } from '@token-vault/observability';
import { Option, type Command } from 'commander';
import { CommandError } from './failure.ts';
import { withParts, type Parts } from './parts.ts';
import { table } from './table.ts';
import type { Terminal } from './terminal.ts';
import { uuid } from './arguments.ts';

async function tenantCommands({ store, keyRing }: Parts): Promise<TenantCommands> {
  const dependencies = { store, clock: systemClock, logger: silentLogger };
  return createTenantCommands({ ...dependencies, keyRing: await keyRing(), audit: createAuditTrail(store) });
}

/** Tells the operator when the created entity cannot be used yet. */
async function waitFor(parts: Parts, position: string | undefined, terminal: Terminal): Promise<void> {
  if (await parts.caughtUp(position)) return;
  terminal.note('note: made, but the read models do not show it yet; see: vault projections status');
}

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
          if (json) terminal.print(JSON.stringify({ id, name, plan, created_at }));
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

/**
 * A tenant chooses its own name, so control characters are removed: the name must not control the operator's
 * terminal.
 */
function printable(name: string): string {
  return name.replaceAll(/\p{C}/gu, '\uFFFD');
}

interface ApplicationOptions {
  readonly tenant: string;
  readonly name: string;
  readonly type: string;
  readonly permission?: readonly string[];
  readonly rules?: string;
  readonly expiresAt?: string;
}

function readApplication(options: ApplicationOptions): CreateApplicationBody {
  const { name, type, permission, rules, expiresAt } = options;
  const body = { name, type, permissions: permission, rules: readRules(rules), expires_at: expiresAt };
  const parsed = createApplicationBody.safeParse(body);
  if (parsed.success) return parsed.data;
  const reasons = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  throw new CommandError([...new Set(reasons)].join('; '));
}

function readRules(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new CommandError('--rules must be JSON: an array of access rules', { cause });
  }
}

export function addApplicationCommands(program: Command, terminal: Terminal): void {
  program
    .command('applications')
    .description('make applications')
    .command('create')
    .description('make an application, whose key is printed once')
    .requiredOption('--tenant <id>', 'whose application', uuid)
    .requiredOption('--name <name>')
    .addOption(new Option('--type <type>').choices(applicationTypes).makeOptionMandatory())
    .addOption(new Option('--permission <permission...>', 'may be repeated').choices(permissions))
    .option('--rules <json>', 'access rules, as the API takes them')
    .option('--expires-at <time>', 'RFC 3339')
    .action((options: ApplicationOptions) =>
      withParts(terminal, async (parts) => {
        const body = readApplication(options);
        const commands = await tenantCommands(parts);
        const { application, position } = await commands.createApplication(options.tenant, body);
        await waitFor(parts, position, terminal);
        terminal.print(`application: ${application.id}`);
        terminal.print(`key: ${application.key ?? ''}`);
        terminal.note('The key is not shown again.');
      }),
    );
}

import {
  applicationKeys,
  applicationPage,
  applicationTypes,
  createApplicationBody,
  permissions,
  type CreateApplicationBody,
  printable,
} from '@token-vault/contracts';
import { parseInput } from '@token-vault/operations';
import { Option, type Command } from 'commander';
import { uuid } from './arguments.ts';
import { CommandError } from './failure.ts';
import { allPages, pageSize, tenantCommands, tenantQueries, waitFor } from './operator.ts';
import { withParts } from './parts.ts';
import { addRevokeKey } from './revoke-key.ts';
import { printableJson, table } from './table.ts';
import type { Terminal } from './terminal.ts';

interface ApplicationOptions {
  readonly tenant: string;
  readonly name: string;
  readonly type: string;
  readonly permission?: readonly string[];
  readonly rules?: string;
  readonly expiresAt?: string;
}

/** The body of the API, by its checks. @throws ValidationError, CommandError */
function readApplication(options: ApplicationOptions): CreateApplicationBody {
  const { name, type, permission, rules, expiresAt } = options;
  const body = { name, type, permissions: permission, rules: readRules(rules), expires_at: expiresAt };
  return parseInput(createApplicationBody, body, { root: 'body' }) as CreateApplicationBody;
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
  const applications = program
    .command('applications')
    .description('make and list applications, list and revoke their keys');
  addCreate(applications, terminal);
  addList(applications, terminal);
  addKeys(applications, terminal);
  addRevokeKey(applications, 'application', terminal);
}

function addCreate(applications: Command, terminal: Terminal): void {
  applications
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

function addList(applications: Command, terminal: Terminal): void {
  applications
    .command('list')
    .description('the applications of a tenant, newest first')
    .requiredOption('--tenant <id>', 'whose applications', uuid)
    .option('--json', 'one JSON object a line')
    .action(({ tenant, json }: { tenant: string; json?: true }) =>
      withParts(terminal, async (parts) => {
        const { queries, context } = await tenantQueries(parts, tenant, []);
        const list = async (page: number) => {
          const query = { id: [], type: [], page, size: pageSize };
          const { body } = await queries.listApplications(
            { params: undefined, query, body: undefined },
            context,
          );
          return applicationPage.parse(body);
        };
        const rows: string[][] = [];
        for await (const application of allPages(list)) {
          const { id, type, expires_at: expiresAt = '', name } = application;
          if (json) terminal.print(printableJson(application));
          else rows.push([id, type, expiresAt, printable(name)]);
        }
        if (!json) terminal.print(table(['id', 'type', 'expires at', 'name'], rows));
      }),
    );
}

function addKeys(applications: Command, terminal: Terminal): void {
  applications
    .command('keys')
    .description('the live keys of an application, by their ids; the keys themselves are stored nowhere')
    .argument('<application>', 'its id', uuid)
    .requiredOption('--tenant <id>', 'whose application', uuid)
    .option('--json', 'one JSON object a line')
    .action((id: string, { tenant, json }: { tenant: string; json?: true }) =>
      withParts(terminal, async (parts) => {
        const { queries, context } = await tenantQueries(parts, tenant, []);
        const asked = { params: { id }, query: undefined, body: undefined };
        const keys = applicationKeys.parse((await queries.listApplicationKeys(asked, context)).body);
        if (json) return keys.forEach((key) => terminal.print(printableJson(key)));
        const rows = keys.map((key) => [
          key.id,
          key.created_at,
          key.expires_at ?? '',
          key.last_used_at ?? '',
        ]);
        terminal.print(table(['id', 'created at', 'expires at', 'hour of last use'], rows));
      }),
    );
}

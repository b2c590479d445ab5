import { proxyPage, printable } from '@token-vault/contracts';
import type { Command } from 'commander';
import { uuid } from './arguments.ts';
import { allPages, pageSize, tenantQueries } from './operator.ts';
import { withParts } from './parts.ts';
import { addRevokeKey } from './revoke-key.ts';
import { printableJson, table } from './table.ts';
import type { Terminal } from './terminal.ts';

export function addProxyCommands(program: Command, terminal: Terminal): void {
  const proxies = program.command('proxies').description('list configured proxies, revoke their keys');
  addList(proxies, terminal);
  addRevokeKey(proxies, 'proxy', terminal);
}

function addList(proxies: Command, terminal: Terminal): void {
  proxies
    .command('list')
    .description('the configured proxies of a tenant, newest first, without code and configuration')
    .requiredOption('--tenant <id>', 'whose proxies', uuid)
    .option('--json', 'one JSON object a line, with the ids of their keys')
    .action(({ tenant, json }: { tenant: string; json?: true }) =>
      withParts(terminal, async (parts) => {
        const { queries, context } = await tenantQueries(parts, tenant, ['proxies']);
        const list = async (page: number) => {
          const query = { id: [], name: undefined, page, size: pageSize };
          const { body } = await queries.listProxies({ params: undefined, query, body: undefined }, context);
          return proxyPage.parse(body);
        };
        const rows: string[][] = [];
        for await (const { request, response, configuration: _secret, ...proxy } of allPages(list)) {
          const has_code = request !== undefined || response !== undefined;
          const { id, destination, application, require_auth: needsKey, keys, name } = proxy;
          if (json) terminal.print(printableJson({ ...proxy, has_code }));
          else {
            const openTo = needsKey ? 'keys' : 'anyone';
            rows.push([id, destination, openTo, String(keys.length), application?.id ?? '', printable(name)]);
          }
        }
        if (json) return;
        const head = ['id', 'destination', 'open to', 'own keys', 'application', 'name'];
        terminal.print(table(head, rows));
      }),
    );
}

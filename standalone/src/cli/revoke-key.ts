import type { KeyOwner } from '@token-vault/command-service';
import { streams } from '@token-vault/contracts';
import type { Command } from 'commander';
import { uuid } from './arguments.ts';
import { tenantCommands } from './operator.ts';
import { withParts, type Parts } from './parts.ts';
import type { Terminal } from './terminal.ts';

interface NamedKey {
  readonly tenant: string;
  readonly owner: KeyOwner;
  readonly keyId: string;
}

/** Resolves when no process accepts the key any more, like the answer of the API (rules.md §6). @throws UnavailableError when that is not certain */
async function revokeKey(parts: Parts, { tenant, owner, keyId }: NamedKey): Promise<void> {
  const commands = await tenantCommands(parts);
  const { position, ifConfirmedBefore } = await commands.deleteKey(tenant, owner, keyId);
  if (position === undefined) return;
  const revocations = await parts.revocations();
  const confirmed = await revocations.confirm(position, [streams[owner.entity](tenant, owner.id)]);
  if (ifConfirmedBefore && confirmed !== 'was unconfirmed') throw ifConfirmedBefore;
}

export function addRevokeKey(group: Command, entity: KeyOwner['entity'], terminal: Terminal): void {
  group
    .command('revoke-key')
    .description('delete a key; the command ends when no process accepts it any more')
    .argument(`<${entity}>`, `the id of the ${entity}`, uuid)
    .argument('<key>', 'the id of the key', uuid)
    .requiredOption('--tenant <id>', `whose ${entity}`, uuid)
    .action((id: string, keyId: string, { tenant }: { tenant: string }) =>
      withParts(terminal, async (parts) => {
        await revokeKey(parts, { tenant, owner: { entity, id }, keyId });
        terminal.print(`key ${keyId} of ${entity} ${id}: revoked`);
      }),
    );
}

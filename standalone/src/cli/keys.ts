import { createKeyRing, type RootKeyProvider } from '@token-vault/crypto';
import { systemClock } from '@token-vault/service-kit';
import type { Command } from 'commander';
import { nextRootKeyFile, readNextRootKey } from '../root-keys.ts';
import { uuid } from './arguments.ts';
import { CommandError } from './failure.ts';
import { withParts, type Parts } from './parts.ts';
import { makeNextRootKey, promoteNextRootKey } from './root-key-files.ts';
import type { Terminal } from './terminal.ts';

/** The key to rotate to: what the operator gave, what an interrupted rotation left, else a new one. */
async function nextRootKey({ rootKeySources, database }: Parts): Promise<RootKeyProvider> {
  const given = await readNextRootKey(rootKeySources);
  if (given) return given;
  const file = nextRootKeyFile(rootKeySources.rootKeyFile);
  // A running vault cannot be told of a new variable, nor another machine of a file here.
  if (rootKeySources.rootKey !== undefined)
    throw new CommandError(
      'VAULT_ROOT_KEY is set: restart each vault with VAULT_ROOT_KEY_NEXT set to the new key as well, and set it here',
    );
  if (database.server === 'unknown')
    throw new CommandError(
      `DATABASE_URL is set: make the new key with "vault keys new-root", copy ${file} to each vault's data directory, then repeat`,
    );
  return makeNextRootKey(rootKeySources.rootKeyFile);
}

async function rotateRoot(parts: Parts, terminal: Terminal): Promise<void> {
  const { pool, rootKeySources } = parts;
  // First of all the keys at hand are checked, so that a wrong one leaves no new file behind.
  await parts.keyRing();
  const next = await nextRootKey(parts);
  const keyRing = await createKeyRing({
    pool,
    ...(await parts.rootKeys()),
    otherRootKeys: [next],
    clock: systemClock,
    durability: 'follows-log',
  });
  const wrapped = await keyRing.rotateRoot(next);
  terminal.print(
    `root key ${next.id} is in use; ${wrapped} tenant keys were wrapped by it, the one before is refused`,
  );
  if (rootKeySources.nextRootKey !== undefined) {
    terminal.note(
      'From now on start each vault with VAULT_ROOT_KEY set to the new key, without VAULT_ROOT_KEY_NEXT.',
    );
    return;
  }
  const keptAs = await promoteNextRootKey(rootKeySources.rootKeyFile, next);
  if (keptAs === undefined) return;
  terminal.note(`The new key is ${rootKeySources.rootKeyFile}: back it up, apart from the data.`);
  terminal.note(`The one before is ${keptAs}: destroy it when no backup needs it.`);
}

async function newRoot({ rootKeySources, keyRing }: Parts, terminal: Terminal): Promise<void> {
  await keyRing();
  const { id } = await makeNextRootKey(rootKeySources.rootKeyFile);
  terminal.print(`root key ${id} is in ${nextRootKeyFile(rootKeySources.rootKeyFile)}, not yet in use`);
}

export function addKeyCommands(program: Command, terminal: Terminal): void {
  const keys = program
    .command('keys')
    .description('rotate keys while the vault serves; data is not sealed anew');
  keys
    .command('rotate-root')
    .description(
      'wrap all tenant keys by a new root key and refuse the old one; repeat it after an interruption',
    )
    .action(() => withParts(terminal, (parts) => rotateRoot(parts, terminal)));
  keys
    .command('new-root')
    .description('make the next root key without using it, for vaults on several machines')
    .action(() => withParts(terminal, (parts) => newRoot(parts, terminal)));
  keys
    .command('rotate-tenant')
    .description('give a tenant a new key and wrap its data keys by it; repeat it after an interruption')
    .argument('<id>', 'of the tenant', uuid)
    .action((id: string) =>
      withParts(terminal, async ({ keyRing }) => {
        const wrapped = await (await keyRing()).rotateTenant(id);
        terminal.print(`tenant ${id} has a new key; ${wrapped} data keys were wrapped by it`);
      }),
    );
}

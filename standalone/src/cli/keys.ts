import {
  createKeyRing,
  isTransitRootKeyId,
  rootKeysInUse,
  transitKey,
  type RootKeyProvider,
  type TransitOptions,
} from '@token-vault/crypto';
import { systemClock } from '@token-vault/operations';
import type { Command } from 'commander';
import {
  nextRootKeyFile,
  readNextRootKey,
  readRootKeyFile,
  type RootKeySources,
} from '@token-vault/processes';
import { uuid } from './arguments.ts';
import { CommandError } from './failure.ts';
import { withParts, type Parts } from './parts.ts';
import { makeNextRootKey, promoteNextRootKey } from './root-key-files.ts';
import type { Terminal } from './terminal.ts';

/** The newest version of the key in transit. @throws CommandError when the vault uses it already. */
async function newestVersion({ pool }: Parts, transit: TransitOptions): Promise<RootKeyProvider> {
  const newest = await transitKey(transit).newest();
  const inUse = await rootKeysInUse(pool);
  if (inUse.length === 1 && inUse[0] === newest.id)
    throw new CommandError(
      `root key ${newest.id} is in use and is the newest version in transit: rotate the key there first, then repeat`,
    );
  return newest;
}

/** The root key to rotate to: the given one, the one of an interrupted rotation, or a new one. */
async function nextRootKey(parts: Parts): Promise<RootKeyProvider> {
  const { rootKeySources, database } = parts;
  const given = await readNextRootKey(rootKeySources);
  if (given) return given;
  if (rootKeySources.transit) return newestVersion(parts, rootKeySources.transit);
  const file = nextRootKeyFile(rootKeySources.rootKeyFile);
  // A running vault does not see a new variable, and another machine does not see a file of this one.
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

/** The steps that the operator has to do after a rotation to a key that is not in a file. */
function remainder({ nextRootKey: next, transit }: RootKeySources): string {
  if (next === undefined)
    return 'When no backup needs the version before, raise min_decryption_version of the key in transit and trim it.';
  if (next === 'transit')
    return 'From now on start each vault with VAULT_ROOT_KEY_TRANSIT_… alone, without VAULT_ROOT_KEY_NEXT, VAULT_ROOT_KEY and a key file.';
  if (next.startsWith('transit:'))
    return 'From now on start each vault with VAULT_ROOT_KEY_TRANSIT_KEY set to the new name, without VAULT_ROOT_KEY_NEXT.';
  const without = transit ? 'VAULT_ROOT_KEY_NEXT and VAULT_ROOT_KEY_TRANSIT_…' : 'VAULT_ROOT_KEY_NEXT';
  return `From now on start each vault with VAULT_ROOT_KEY set to the new key, without ${without}.`;
}

async function rotateRoot(parts: Parts, terminal: Terminal): Promise<void> {
  const { pool, rootKeySources } = parts;
  // The present keys are checked first, so that a wrong one leaves no new file behind.
  await parts.keyRing();
  const next = await nextRootKey(parts);
  const keyRing = await createKeyRing({
    pool,
    ...(await parts.rootKeys()),
    otherRootKeys: [next],
    clock: systemClock,
    durability: 'own',
  });
  const wrapped = await keyRing.rotateRoot(next);
  terminal.print(
    `root key ${next.id} is in use; ${wrapped} tenant keys were wrapped by it, the previous one is refused`,
  );
  if (rootKeySources.nextRootKey !== undefined || isTransitRootKeyId(next.id)) {
    terminal.note(remainder(rootKeySources));
    // The file is not renamed: a vault that starts again needs it until every vault was restarted without it.
    if (await readRootKeyFile(rootKeySources.rootKeyFile))
      terminal.note(
        `Then ${rootKeySources.rootKeyFile} is not needed any more: move it away from the data, and destroy it when no backup needs it.`,
      );
    return;
  }
  const promoted = await promoteNextRootKey(rootKeySources.rootKeyFile, next);
  if (promoted === 'done before') return;
  terminal.note(`The new key is ${rootKeySources.rootKeyFile}: back it up, apart from the data.`);
  if (promoted.keptAs !== undefined)
    terminal.note(`The one before is ${promoted.keptAs}: destroy it when no backup needs it.`);
  if (rootKeySources.transit) terminal.note('From now on start each vault without VAULT_ROOT_KEY_TRANSIT_….');
}

async function newRoot({ rootKeySources, keyRing }: Parts, terminal: Terminal): Promise<void> {
  await keyRing();
  const { id } = await makeNextRootKey(rootKeySources.rootKeyFile);
  terminal.print(`root key ${id} is in ${nextRootKeyFile(rootKeySources.rootKeyFile)}, not yet in use`);
}

export function addKeyCommands(program: Command, terminal: Terminal): void {
  const keys = program
    .command('keys')
    .description('rotate keys while the vault serves; data is not sealed again');
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

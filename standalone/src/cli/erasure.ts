import { certifyErasure, tenantsOfToken, verifyErasureCertificate } from '@token-vault/audit';
import { systemClock } from '@token-vault/operations';
import type { Command } from 'commander';
import { readFile } from 'node:fs/promises';
import { uuid } from './arguments.ts';
import { CommandError } from './failure.ts';
import { withParts, type Parts } from './parts.ts';
import type { Terminal } from './terminal.ts';

async function tenantOf({ store, pool }: Parts, tokenId: string): Promise<string> {
  const tenants = await tenantsOfToken(store, pool, tokenId);
  const [tenantId] = tenants;
  if (tenantId === undefined) throw new CommandError(`no tenant has ever had a token ${tokenId}`);
  if (tenants.length > 1)
    throw new CommandError(
      `${tenants.length} tenants have had a token ${tokenId}: say which with --tenant: ${tenants.sort().join(', ')}`,
    );
  return tenantId;
}

async function certify(parts: Parts, terminal: Terminal, tokenId: string, tenant?: string): Promise<void> {
  const keyRing = await parts.keyRing();
  const tenantId = tenant ?? (await tenantOf(parts, tokenId));
  const certificate = await certifyErasure({
    store: parts.store,
    pool: parts.pool,
    keyRing,
    clock: systemClock,
    tenantId,
    tokenId,
  });
  terminal.print(JSON.stringify(certificate, undefined, 2));
  terminal.note(
    `To verify it, one needs the public key of the tenant (vault audit public-key --tenant ${tenantId}), from you and not from this file.`,
  );
}

/** Reads the file only. No vault is needed. */
async function verify(terminal: Terminal, file: string, publicKey: string): Promise<void> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new CommandError(
      `${file} cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`,
    );
  });
  const certificate = verifyErasureCertificate(text, publicKey);
  if (!certificate) throw new CommandError(`${file} is not a certificate of erasure signed by this key`);
  const { token_id, tenant_id, erased_by, destroyed_keys: keys, verified_at } = certificate;
  terminal.print(
    `token ${token_id} of tenant ${tenant_id} was erased by ${erased_by.type} ${erased_by.id} at position ${erased_by.position}, ` +
      `${erased_by.occurred_at}; its ${keys.length} data keys were gone at ${verified_at}`,
  );
}

export function addErasureCommands(program: Command, terminal: Terminal): void {
  const erasure = program.command('erasure').description('prove that a token was erased');
  erasure
    .command('certificate')
    .description(
      'a signed statement which data keys of a token were destroyed, when and by which event, as JSON',
    )
    .argument('<token>', 'its id')
    .option(
      '--tenant <id>',
      'the tenant of the token; needed when several tenants had a token of this id',
      uuid,
    )
    .action((tokenId: string, { tenant }: { readonly tenant?: string }) =>
      withParts(terminal, (parts) => certify(parts, terminal, tokenId, tenant)),
    );
  erasure
    .command('verify')
    .description('verify such a statement, without a vault')
    .argument('<file>', 'the certificate')
    .requiredOption('--public-key <key>', "the tenant's, as its checkpoints name it")
    .action((file: string, { publicKey }: { readonly publicKey: string }) =>
      verify(terminal, file, publicKey),
    );
}

import { printable, UnauthenticatedError } from '@token-vault/contracts';
import { createExpressions, createExpressionWorkers } from '@token-vault/expressions';
import { createPrincipals } from '@token-vault/processes';
import { createAuditTrail, systemClock, type Identity } from '@token-vault/operations';
import { createAuthenticator } from '@token-vault/authentication';
import { silentLogger } from '@token-vault/observability';
import type { ReadModelWatch } from '@token-vault/read-models';
import type { Command } from 'commander';
import { exportTokens } from '../transfer/export.ts';
import { importTokens } from '../transfer/import.ts';
import { makeKeyPair, readRecipients } from '../transfer/sealing.ts';
import { uuid } from './arguments.ts';
import { CommandError } from './failure.ts';
import { withParts, type Parts } from './parts.ts';
import { reportProgress } from './progress-line.ts';
import type { Terminal } from './terminal.ts';

const uuidForm = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** By the id, which an operator may name, or by the key, which proves the identity. */
async function identify(
  { pool, store, keyRing }: Parts,
  watch: ReadModelWatch,
  tenantId: string,
  idOrKey: string,
): Promise<Identity> {
  const parts = { pool, store, keyRing: await keyRing(), clock: systemClock, watch };
  if (uuidForm.test(idOrKey)) {
    const principal = await createPrincipals(parts).application(tenantId, idOrKey.toLowerCase());
    return principal ? { kind: 'authenticated', principal } : { kind: 'unknown' };
  }
  const found = await createAuthenticator(parts).authenticate(idOrKey);
  const isOfOther = found.kind === 'authenticated' && found.principal.tenant.id !== tenantId;
  return isOfOther ? { kind: 'unknown' } : found;
}

interface ExportFlags {
  readonly recipient: string;
  readonly application: string;
  readonly to: string;
  readonly reason?: string;
}

async function exportTenant(parts: Parts, tenantId: string, flags: ExportFlags, terminal: Terminal) {
  const { pool, store } = parts;
  const recipients = await readRecipients(flags.recipient);
  const watch = await parts.readModels('tokens');
  const { exportId, tokens, leftOut } = await exportTokens({
    pool,
    keyRing: await parts.keyRing(),
    audit: createAuditTrail(store),
    clock: systemClock,
    identify: () => identify(parts, watch, tenantId, flags.application),
    reason: flags.reason,
    watch,
    recipients,
    file: flags.to,
    signal: terminal.interrupted,
  }).catch((error: unknown) => {
    if (!(error instanceof UnauthenticatedError)) throw error;
    throw new CommandError(`tenant ${tenantId} has no such application`);
  });
  terminal.print(`export: ${exportId}`);
  terminal.print(`tokens: ${tokens}`);
  terminal.print(`left out: ${leftOut}`);
  if (leftOut > 0)
    terminal.note(
      'Those that were left out are not revealed by the rules of the application, or were being changed.',
    );
}

async function importTenant(
  parts: Parts,
  { tenantId, file, identityFile }: { tenantId: string; file: string; identityFile: string },
  terminal: Terminal,
): Promise<void> {
  const { store } = parts;
  const progress = reportProgress(terminal, 'import', 0);
  const workers = createExpressionWorkers();
  let report: Awaited<ReturnType<typeof importTokens>>;
  try {
    report = await importTokens({
      store,
      keyRing: await parts.keyRing(),
      audit: createAuditTrail(store),
      expressions: createExpressions(workers),
      clock: systemClock,
      logger: silentLogger,
      tenantId,
      file,
      identityFile,
      signal: terminal.interrupted,
      onProgress: (done, total) => progress.update(done, total, 'tokens'),
      // The id and the names of fields come from the file.
      onRefused: (id, reason) => terminal.print(`refused: ${printable(`${id}: ${reason}`)}`),
    });
  } finally {
    await workers.close();
    progress.end();
  }
  const { exportId, imported, already, refused, position } = report;
  if (!(await parts.caughtUp(position))) terminal.note('note: the read models do not show all of it yet');
  terminal.print(`export: ${exportId}`);
  terminal.print(`imported: ${imported}`);
  terminal.print(`already there: ${already}`);
  if (refused > 0) throw new CommandError(`${refused} tokens were not imported`);
}

export function addTransferCommands(program: Command, terminal: Terminal): void {
  program
    .command('transfer')
    .description('prepare the transfer of tokens from vault to vault')
    .command('keygen')
    .description('make a key pair: the secret key in <file>, the public key in <file>.pub')
    .argument('<file>')
    .action(async (file: string) => {
      terminal.print(`public key: ${await makeKeyPair(file)}`);
      terminal.note(`Give ${file}.pub to the person who exports; keep ${file}.`);
    });

  program
    .command('export')
    .description("write a tenant's tokens in plaintext, sealed to a public key")
    .argument('<tenant>', 'its id', uuid)
    .requiredOption('--recipient <file>', 'with the public keys (age1…) that may open it')
    .requiredOption(
      '--application <id or key>',
      'its rules decide which tokens are exported: those that they reveal',
    )
    .requiredOption('--to <file>', 'where to write it')
    .option('--reason <text>', 'the reason; recorded in the log, and needed where a rule requires one')
    .action((tenantId: string, flags: ExportFlags) =>
      withParts(terminal, (parts) => exportTenant(parts, tenantId, flags, terminal)),
    );

  program
    .command('import')
    .description('create the tokens of an export under their ids; repeat it after an interruption')
    .argument('<tenant>', 'its id', uuid)
    .argument('<file>')
    .requiredOption('--identity <file>', 'with the secret key')
    .action((tenantId: string, file: string, { identity }: { identity: string }) =>
      withParts(terminal, (parts) =>
        importTenant(parts, { tenantId, file, identityFile: identity }, terminal),
      ),
    );
}

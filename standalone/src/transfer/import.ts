import { isDeepStrictEqual } from 'node:util';
import type { Principal } from '@token-vault/access';
import { createCommandHandlers, type CommandDependencies } from '@token-vault/command-service';
import {
  ConflictError,
  createTokenBody,
  DomainError,
  isSecret,
  streams,
  ValidationError,
  type CreateTokenBody,
} from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import { containsExpression } from '@token-vault/expressions';
import { commandLineCaller, parseInput, type RequestContext } from '@token-vault/operations';
import { TransferError } from './errors.ts';
import { readExport, type ExportHeader, type ExportLine, type ExportTrailer } from './format.ts';
import { openWith, readIdentities } from './sealing.ts';

export interface ImportOptions extends CommandDependencies {
  readonly tenantId: string;
  readonly file: string;
  readonly identityFile: string;
  readonly signal: AbortSignal;
  readonly onProgress?: (tokens: number, of: number) => void;
  /** Called for a token that was not imported. `reason` holds none of its data. */
  readonly onRefused: (id: string, reason: string) => void;
}

export interface ImportReport {
  readonly exportId: string;
  readonly imported: number;
  /** The number of tokens that an earlier run of the same import created. */
  readonly already: number;
  readonly refused: number;
  /** The position of the last append. Undefined when nothing was appended. */
  readonly position: string | undefined;
}

const atOnce = 32;
/** The header. */
const linesBefore = 1;
const actor = { kind: 'system', id: 'import' } as const;

/**
 * Creates the tokens of an export by the command of a client, under their former ids. Nothing is created before the
 * whole file is proved genuine. A token that an earlier run created is not created again, even when it was deleted
 * since. An id that another token of the vault or of the file has is left alone and reported. So is the id of a token that was deleted or has
 * expired in the tenant: what was erased stays erased.
 * @throws TransferError, TenantKeysMissingError
 */
export async function importTokens(options: ImportOptions): Promise<ImportReport> {
  const { file, identityFile, signal } = options;
  const identities = await readIdentities(identityFile);
  const { header, trailer } = await prove(options, identities);
  const counts = { imported: 0, already: 0, refused: 0 };
  let position: string | undefined;
  const importOne = createImport(options, header.export_id);
  const take = async (value: ExportLine, line: number): Promise<void> => {
    const outcome = await importOne(value, line);
    counts[outcome.kind] += 1;
    if (outcome.kind === 'refused') options.onRefused(outcome.id, outcome.reason);
    if (outcome.kind === 'imported' && isLater(outcome.position, position)) position = outcome.position;
  };
  let done = 0;
  for await (const batch of readExport(openWith(identities, file), {})) {
    for (let at = 0; at < batch.length; at += atOnce) {
      signal.throwIfAborted();
      const portion = batch.slice(at, at + atOnce);
      const firstLine = done + linesBefore + 1;
      await Promise.all(portion.map((value, index) => take(value, firstLine + index)));
      done += portion.length;
      options.onProgress?.(done, trailer.tokens);
    }
  }
  return { exportId: header.export_id, ...counts, position };
}

const isLater = (found: string | undefined, before: string | undefined): boolean =>
  found !== undefined && (before === undefined || BigInt(found) > BigInt(before));

/** Reads the file to its end: a genuine chunk proves nothing about later ones. */
async function prove({ file, signal }: ImportOptions, identities: readonly string[]) {
  let header: ExportHeader | undefined;
  let trailer: ExportTrailer | undefined;
  const reader = {
    onHeader: (found: ExportHeader) => void (header = found),
    onTrailer: (found: ExportTrailer) => void (trailer = found),
  };
  for await (const _ of readExport(openWith(identities, file), reader)) signal.throwIfAborted();
  if (!header || !trailer) throw new TransferError(`${file} is not an export`);
  return { header, trailer };
}

type Outcome =
  | { readonly kind: 'imported'; readonly position: string | undefined }
  | { readonly kind: 'already' }
  | { readonly kind: 'refused'; readonly id: string; readonly reason: string };

function createImport(
  options: ImportOptions,
  exportId: string,
): (value: ExportLine, line: number) => Promise<Outcome> {
  const { store, tenantId } = options;
  const { createToken } = createCommandHandlers({ ...options, reusesTokenIds: false });
  if (!createToken) throw new Error('there is no command to create tokens');
  const identify = async () => ({ kind: 'authenticated', principal: operator(tenantId) }) as const;
  const admit = async (line: number): Promise<RequestContext> => {
    const request = { traceId: exportId, causationId: String(line), identify };
    const caller = commandLineCaller('import', request, options);
    return caller.contextOf({ principal: await caller.principalNow(), atMs: performance.now() });
  };
  const doneBefore = async (id: string, line: number): Promise<Outcome | undefined> => {
    const by = await importedLine(store, tenantId, id, exportId);
    if (by === undefined) return undefined;
    if (by === 'unknown' || by === String(line)) return { kind: 'already' };
    return { kind: 'refused', id, reason: `line ${line}: id is also that of line ${by}, which was imported` };
  };

  return async (value, line) => {
    const token = tokenIn(value, line);
    if ('kind' in token) return token;
    const { id } = token;
    // Duplicates are created too: other systems know each of the ids. A token without a mask gets none: the default
    // mask of its type would show data to readers who saw none before.
    const body: CreateTokenBody = {
      ...token,
      mask: token.mask ?? null,
      deduplicate_token: false,
    };
    const before = await doneBefore(id, line);
    if (before) return before;
    try {
      const input = { params: undefined, query: undefined, body };
      const { position } = await createToken(input, await admit(line));
      return { kind: 'imported', position };
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      // Another run of the same import, or another line, may have created the token first.
      const meanwhile = error instanceof ConflictError ? await doneBefore(id, line) : undefined;
      return meanwhile ?? { kind: 'refused', id, reason: reasonOf(error) };
    }
  };
}

type Refused = Extract<Outcome, { kind: 'refused' }>;

/** A line as the body of a create, by the checks of the interface. */
function tokenIn(value: ExportLine, line: number): (CreateTokenBody & { readonly id: string }) | Refused {
  try {
    if (value instanceof ValidationError) throw value;
    const token = parseInput(createTokenBody, value.expose(), { root: 'body' }) as CreateTokenBody;
    // An id that is an expression would give another id at each import.
    if (token.id === undefined || containsExpression(token.id))
      throw ValidationError.of('id', 'is required, and must be no expression');
    return { ...token, id: token.id };
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    return { kind: 'refused', id: idIn(value), reason: `line ${line}: ${reasonOf(error)}` };
  }
}

const idIn = (value: ExportLine): string => {
  const token = isSecret(value) ? value.expose() : undefined;
  const id = (token as { id?: unknown } | null | undefined)?.id;
  return typeof id === 'string' ? id.slice(0, 400) : 'a token';
};

function reasonOf({ message, errors }: DomainError): string {
  const fields = Object.entries(errors ?? {}).map(([field, reasons]) => `${field} ${reasons.join(', ')}`);
  return fields.length > 0 ? fields.join('; ') : message;
}

/**
 * The number of the line from which the export created the token: 'unknown' when an older release did, undefined when it did not. Every event of
 * an import has the id of its export as its trace id and the line as its cause. A request of a caller may have the same trace id too.
 */
async function importedLine(
  store: EventStore,
  tenantId: string,
  tokenId: string,
  exportId: string,
): Promise<string | undefined> {
  for await (const { metadata } of store.readStream(streams.token(tenantId, tokenId)))
    if (metadata.correlation_id === exportId && isDeepStrictEqual(metadata.actor, actor))
      return metadata.causation_id ?? 'unknown';
  return undefined;
}

/** The operator may create tokens in any container. The log names the import. */
const operator = (tenantId: string): Principal => ({
  tenant: { id: tenantId, plan: 'enterprise', settings: {} },
  actor,
  applicationId: 'import',
  applicationType: 'private',
  permissions: ['token:create'],
  rules: [],
});

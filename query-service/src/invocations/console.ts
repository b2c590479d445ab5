import { can, decideTokenAccess, lesserOf, shownBy } from '@token-vault/access';
import {
  runConsole,
  runConsolePlace,
  streams,
  TokensRead,
  type Json,
  type RunConsole,
  type ShownInvocation,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing, type SealedValue } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { AuditTrail, RequestContext } from '@token-vault/operations';
import type { FairReads } from '../fair-reads.ts';
import { findTokensByIds } from '../tokens/queries.ts';
import { isExpired } from '../tokens/row.ts';
import { readOf, type GrantedToken } from '../tokens/show.ts';
import { requireSignedRows } from '../tokens/signed-rows.ts';
import type { RunRow } from './queries.ts';

export interface ConsoleDependencies {
  readonly reads: FairReads;
  readonly store: Pick<EventStore, 'readStream'>;
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly audit: AuditTrail;
}

/** No console is kept longer after its run. */
const keptMs = 60 * 60 * 1000;

const withheld = {
  gone: 'A token that the code was given, was shown or made is gone.',
  changed: 'A token that the code was given, was shown or made was changed after the run began.',
  hidden: 'The lines may hold data of tokens that this caller is not shown as the code of the run was.',
  unnamed: 'The lines may hold data of more tokens than are named.',
  ofOthers: 'This caller did not ask for the run.',
} as const;

type Shown = Pick<ShownInvocation, 'console' | 'console_withheld'>;

interface Printed {
  readonly content: RunConsole;
  readonly runBeganAt: Date;
  readonly runEndedAt: Date;
}

/**
 * What the code of a run printed, for a caller that is shown each token of the run as much as the code was (ADR 46). A reading of these
 * tokens is on record before the lines are given.
 */
export class RunConsoles {
  readonly #dependencies: ConsoleDependencies;

  constructor(dependencies: ConsoleDependencies) {
    this.#dependencies = dependencies;
  }

  async show({ id, ended_at: endedAt }: RunRow, context: RequestContext): Promise<Shown> {
    // The log is read only while lines can be kept.
    if (!endedAt || context.now.getTime() - endedAt.getTime() >= keptMs) return {};
    const printed = await this.#open(id, context);
    if (!printed) return {};
    const { content } = printed;
    const tokens = await this.#decide(printed, context);
    if (typeof tokens === 'string') return { console_withheld: withheld[tokens] };
    if (tokens.length > 0) await this.#dependencies.audit.record(context, TokensRead, readOf(tokens, 'read'));
    return { console: { lines: content.lines, is_cut: content.isCut, kept_until: content.endsAt } };
  }

  /** Undefined when nothing was printed or its hour is over. @throws SealBrokenError when the record was altered */
  async #open(id: string, { principal }: RequestContext): Promise<Printed | undefined> {
    const { store, keyRing } = this.#dependencies;
    const { id: tenantId } = principal.tenant;
    let ended: { readonly console: SealedValue; readonly at: string } | undefined;
    const events = store.readStream(streams.invocation(tenantId, id), { backwards: true });
    for await (const { type, data, metadata } of events) {
      if (type === 'ReactorSucceeded' || type === 'ReactorFailed') {
        if (data.console === undefined) return undefined;
        ended = { console: data.console as SealedValue, at: metadata.occurred_at };
      }
      if (!ended || (type !== 'ReactorStarted' && type !== 'ReactorInvoked')) continue;
      try {
        const opened = await keyRing.open<Json>(runConsolePlace(tenantId, id), ended.console);
        const [runBeganAt, runEndedAt] = [new Date(metadata.occurred_at), new Date(ended.at)];
        return { content: runConsole.parse(opened.expose()), runBeganAt, runEndedAt };
      } catch (error) {
        if (error instanceof KeyDestroyedError) return undefined;
        throw error;
      }
    }
    return undefined;
  }

  /**
   * The code saw the data of that time, and the rules for the token of now decide about the data of now. What was made by the run itself has
   * no later event.
   */
  async #isChangedSince(tenantId: string, tokenId: string, time: Date): Promise<boolean> {
    const events = this.#dependencies.store.readStream(streams.token(tenantId, tokenId), { backwards: true });
    for await (const { type, metadata } of events)
      return type !== 'TokenCreated' && new Date(metadata.occurred_at) > time;
    return false;
  }

  /** The tokens that the lines may show, or why they are withheld. */
  async #decide(
    { content, runBeganAt, runEndedAt }: Printed,
    { principal, now }: RequestContext,
  ): Promise<readonly GrantedToken[] | keyof typeof withheld> {
    const { tokens, areAllNamed, invokedBy } = content;
    if (!can(principal, 'reactor:read') && invokedBy !== principal.actor.id) return 'ofOthers';
    if (!areAllNamed) return 'unnamed';
    if (tokens.length === 0) return [];
    const { id: tenantId } = principal.tenant;
    const ids = tokens.map(({ id }) => id);
    const rows = await findTokensByIds(this.#dependencies.reads.of(tenantId), tenantId, ids);
    await requireSignedRows(this.#dependencies.keyRing, principal.tenant, rows);
    // A token that was made later under the same id is another one.
    const found = new Map(
      rows.flatMap((row) => (isExpired(row, now) || row.created_at > runEndedAt ? [] : [[row.id, row]])),
    );
    const granted: GrantedToken[] = [];
    for (const { id, transform } of tokens) {
      const row = found.get(id);
      if (!row) return 'gone';
      if (await this.#isChangedSince(tenantId, id, runBeganAt)) return 'changed';
      const access = decideTokenAccess(principal, 'token:read', { id, containers: [row.container] });
      if (!access.isGranted) return 'hidden';
      const shown = shownBy(access.transform, row.mask !== null);
      if (lesserOf(shown, transform) !== transform) return 'hidden';
      granted.push({ ...access, row });
    }
    return granted;
  }
}

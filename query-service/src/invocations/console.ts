import {
  ReactorDeleted,
  runConsole,
  runConsolePlace,
  streams,
  type Json,
  type ShownInvocation,
} from '@token-vault/contracts';
import { KeyDestroyedError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { RunRow } from './queries.ts';

export interface ConsoleDependencies {
  readonly store: Pick<EventStore, 'readStream'>;
  readonly keyRing: Pick<KeyRing, 'open'>;
}

/** The longest time after its end for which the printed lines of a run are kept. */
const keptMs = 60 * 60 * 1000;

const withheld =
  'The code was given, was shown or made tokens, or could be. The printed lines may hold their data, so they were not kept.';

type Shown = Pick<ShownInvocation, 'console' | 'console_withheld'>;

/**
 * The lines that the code of a run printed (ADR 46). Empty when there are none, when they are no longer kept, and when the reactor was deleted.
 * @throws SealBrokenError when the record was altered
 */
export async function readConsole(
  dependencies: ConsoleDependencies,
  { id, ended_at: endedAt }: RunRow,
  { principal, now }: RequestContext,
): Promise<Shown> {
  // The log is read only while lines can be kept.
  if (!endedAt || now.getTime() - endedAt.getTime() >= keptMs) return {};
  const { id: tenantId } = principal.tenant;
  const { store } = dependencies;
  for await (const { type, data } of store.readStream(streams.invocation(tenantId, id), {
    backwards: true,
  })) {
    if (type !== 'ReactorSucceeded' && type !== 'ReactorFailed') continue;
    if (data.console === undefined) return {};
    const shown = await openLines(dependencies, runConsolePlace(tenantId, id), data.console);
    // The deletion is looked for last, because what comes before takes time.
    return (await isDeleted(store, streams.reactor(tenantId, data.reactor_id))) ? {} : shown;
  }
  return {};
}

async function openLines(
  { keyRing }: ConsoleDependencies,
  place: ReturnType<typeof runConsolePlace>,
  sealed: string,
): Promise<Shown> {
  try {
    const opened = await keyRing.open<Json>(place, sealed);
    const { lines, isCut, sawTokens, endsAt } = runConsole.parse(opened.expose());
    if (sawTokens) return { console_withheld: withheld };
    return { console: { lines, is_cut: isCut, kept_until: endsAt } };
  } catch (error) {
    if (error instanceof KeyDestroyedError) return {};
    throw error;
  }
}

/** The lines may hold the configuration of the reactor, which its deletion withdraws (ADR 16). The log says so at once; the read model may be behind. */
async function isDeleted(store: ConsoleDependencies['store'], reactor: string): Promise<boolean> {
  for await (const { type } of store.readStream(reactor, { backwards: true, maxCount: 1 }))
    return type === ReactorDeleted.type;
  return false;
}

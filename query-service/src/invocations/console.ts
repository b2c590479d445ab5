import {
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
 * The lines that the code of a run printed (ADR 46). Empty when there are none, and when they are no longer kept.
 * @throws SealBrokenError when the record was altered
 */
export async function readConsole(
  { store, keyRing }: ConsoleDependencies,
  { id, ended_at: endedAt }: RunRow,
  { principal, now }: RequestContext,
): Promise<Shown> {
  // The log is read only while lines can be kept.
  if (!endedAt || now.getTime() - endedAt.getTime() >= keptMs) return {};
  const { id: tenantId } = principal.tenant;
  for await (const { type, data } of store.readStream(streams.invocation(tenantId, id), {
    backwards: true,
  })) {
    if (type !== 'ReactorSucceeded' && type !== 'ReactorFailed') continue;
    if (data.console === undefined) return {};
    try {
      const opened = await keyRing.open<Json>(runConsolePlace(tenantId, id), data.console);
      const { lines, isCut, sawTokens, endsAt } = runConsole.parse(opened.expose());
      if (sawTokens) return { console_withheld: withheld };
      return { console: { lines, is_cut: isCut, kept_until: endsAt } };
    } catch (error) {
      if (error instanceof KeyDestroyedError) return {};
      throw error;
    }
  }
  return {};
}

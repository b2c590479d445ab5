import { runConsolePlace, type RunConsole } from '@token-vault/contracts';
import { secret, type KeyRing, type SealedValue } from '@token-vault/crypto';
import type { Clock } from '@token-vault/operations';
import type { Invocation } from './invocation.ts';
import type { InvocationOutcome } from './outcome.ts';

/** Enough to look into a run that has just failed. */
const keptMs = 60 * 60 * 1000;

/**
 * Seals the lines that the code printed under a key that ends after an hour (ADR 46). Keeps no lines when the code was given a token, could
 * call the vault, made tokens, or was invoked by other code, whose arguments may be data of tokens. Undefined when there are no lines.
 */
export async function sealConsole(
  { keyRing, clock }: { readonly keyRing: KeyRing; readonly clock: Clock },
  { tenantId, id, invoked }: Invocation,
  { console, seen, mayHoldTokens }: InvocationOutcome,
): Promise<SealedValue | undefined> {
  if (!console || (console.lines.length === 0 && !console.truncated)) return undefined;
  const isNested = invoked.depth > 0;
  const wasShown = invoked.token_ids.length > 0 || !seen?.isComplete || seen.tokens.length > 0;
  const sawTokens = wasShown || isNested || mayHoldTokens === true;
  const destroyAfter = new Date(clock.now().getTime() + keptMs);
  const content: RunConsole = {
    lines: sawTokens ? [] : [...console.lines],
    isCut: console.truncated,
    sawTokens,
    endsAt: destroyAfter.toISOString(),
  };
  return keyRing.sealNew(runConsolePlace(tenantId, id), secret(content), { destroyAfter });
}

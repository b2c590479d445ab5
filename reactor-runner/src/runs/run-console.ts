import { lesserOf } from '@token-vault/access';
import { runConsolePlace, type RunConsole, type Transform } from '@token-vault/contracts';
import { secret, type KeyRing, type SealedValue } from '@token-vault/crypto';
import type { Clock } from '@token-vault/operations';
import type { Invocation } from './invocation.ts';
import type { InvocationOutcome } from './outcome.ts';

/** For somebody who looks into a run that has just failed. */
const keptMs = 60 * 60 * 1000;

/** The tokens of the arguments, which code is given in plaintext, and those that it was shown or that were made of its output. */
function tokensOf({ invoked }: Invocation, { seen }: InvocationOutcome): RunConsole['tokens'] {
  const transforms = new Map<string, Transform>(invoked.token_ids.map((id) => [id, 'reveal']));
  for (const { id, shown } of seen?.tokens ?? []) {
    // What was made of the output is known to the code in plaintext.
    const transform = shown?.transform ?? 'reveal';
    const before = transforms.get(id);
    transforms.set(id, before && lesserOf(before, transform) === transform ? before : transform);
  }
  return [...transforms].map(([id, transform]) => ({ id, transform }));
}

/**
 * Seals what the code printed, with the tokens that decide who sees it, under a key that ends after an hour, or with the first cvc that the
 * code was shown (ADR 46). Undefined when the code printed nothing.
 */
export async function sealConsole(
  { keyRing, clock }: { readonly keyRing: KeyRing; readonly clock: Clock },
  invocation: Invocation,
  outcome: InvocationOutcome,
): Promise<SealedValue | undefined> {
  const { console, seen } = outcome;
  if (!console || (console.lines.length === 0 && !console.truncated)) return undefined;
  const keptUntil = new Date(clock.now().getTime() + keptMs);
  const cvcEndsAt = seen?.cvcEndsAt;
  const destroyAfter = cvcEndsAt !== undefined && cvcEndsAt < keptUntil ? cvcEndsAt : keptUntil;
  const content: RunConsole = {
    lines: [...console.lines],
    isCut: console.truncated,
    tokens: tokensOf(invocation, outcome),
    areAllNamed: seen?.isComplete ?? false,
    invokedBy: invocation.metadata.actor.id,
    endsAt: destroyAfter.toISOString(),
  };
  const place = runConsolePlace(invocation.tenantId, invocation.id);
  return keyRing.sealNew(place, secret(content), { destroyAfter });
}

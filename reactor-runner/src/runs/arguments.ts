import { invocationPlace, type Json } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { DetokenizedToken, Expressions } from '@token-vault/expressions';
import type { RecordedRefusals } from '@token-vault/operations';
import { holderOf, type Invocation } from './invocation.ts';
import { throwTooOld, type NamedRights } from './invoker.ts';
import { guessOfArguments } from './origin.ts';
import type { Invoking } from './ports.ts';
import { detokenize } from './run-tokens.ts';

interface ArgumentDependencies extends NamedRights {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'open'>;
  readonly expressions: Expressions;
}

/** The arguments of a run with the data of their tokens. @throws DomainError */
export async function filledArguments(
  invocation: Invocation,
  tokens: ReadonlyMap<string, DetokenizedToken>,
  { refusals, ...invoking }: Invoking & { readonly refusals: RecordedRefusals },
  dependencies: ArgumentDependencies,
): Promise<Json> {
  const { tenantId, id, invoked } = invocation;
  const place = invocationPlace(tenantId, id, 'args');
  const opened = await dependencies.keyRing.open<Json>(place, invoked.args).catch(throwTooOld);
  return detokenize(opened.expose(), (tokenId) => tokens.get(tokenId), {
    expressions: dependencies.expressions.of(invocation, holderOf(invocation)),
    guess: guessOfArguments(invocation, invoking, refusals, dependencies),
  });
}

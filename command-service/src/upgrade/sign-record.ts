import { streams } from '@token-vault/contracts';
import { execute } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { invocationDecider } from '../invocations/decider.ts';
import { invocationSigner } from '../invocations/state.ts';
import { reactorDecider } from '../reactors/decider.ts';
import { reactorSigner } from '../reactors/state.ts';
import { changeToken, loadToken } from '../tokens/change.ts';
import { tokenDecider } from '../tokens/decider.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { SigningDependencies } from './sign-grants.ts';

export type SigningWork = SigningDependencies & {
  readonly outcomes: TransactionOutcomes;
  readonly signal: AbortSignal;
};

/** `later`: a transaction or a runner holds the record. */
export type Signed = 'done' | 'later';

/** A token that a transaction holds waits for the end of the transaction. */
export async function signToken(work: SigningWork, tenantId: string, id: string): Promise<Signed> {
  const context = systemContext(tenantId, 'upgrade', work.clock);
  const { before } = await changeToken(work, {
    tenantId,
    load: () => loadToken(work, id, context),
    decide: ({ state, isPending }) => ({
      facts: isPending ? [] : tokenDecider.decide(state, { kind: 'sign' }),
    }),
  });
  return before.isPending ? 'later' : 'done';
}

export async function signReactor(work: SigningWork, tenantId: string, id: string): Promise<Signed> {
  const { store, keyRing, clock } = work;
  const context = systemContext(tenantId, 'upgrade', clock);
  await execute({
    store,
    stream: streams.reactor(tenantId, id),
    decider: reactorDecider,
    command: { kind: 'sign' },
    event: context.event.bind(context),
    signing: { signer: reactorSigner, hashes: () => keyRing.hashes(tenantId) },
  });
  return 'done';
}

export async function signInvocation(work: SigningWork, tenantId: string, id: string): Promise<Signed> {
  const { store, keyRing, clock } = work;
  const context = systemContext(tenantId, 'upgrade', clock);
  const { before } = await execute({
    store,
    stream: streams.invocation(tenantId, id),
    decider: invocationDecider,
    command: { kind: 'sign' },
    event: context.event.bind(context),
    signing: { signer: invocationSigner, hashes: () => keyRing.hashes(tenantId) },
  });
  return before.kind === 'running' ? 'later' : 'done';
}

import {
  invocationStatement,
  ReactorInvocationSigned,
  signatureOf,
  streams,
  TokenSigned,
  type VaultEvent,
} from '@token-vault/contracts';
import { RevisionConflictError, type RecordedEvent } from '@token-vault/event-store';
import { execute, expectedAt } from '../aggregates/decider.ts';
import { systemContext } from '../aggregates/system-context.ts';
import { isOutcome } from '../invocations/state.ts';
import { reactorDecider } from '../reactors/decider.ts';
import { reactorSigner } from '../reactors/state.ts';
import { readTokenHistory } from '../tokens/history.ts';
import { signTokenEvents } from '../tokens/signed.ts';
import type { TransactionOutcomes } from '../transactions/outcomes.ts';
import type { SigningDependencies } from './sign-grants.ts';

export type SigningWork = SigningDependencies & {
  readonly outcomes: TransactionOutcomes;
  readonly signal: AbortSignal;
};

/** `later`: a transaction or a runner holds the record, or another writer has just changed it. */
export type Signed = 'done' | 'later';

async function append(
  { store }: SigningWork,
  stream: string,
  events: readonly VaultEvent[],
  revision: number,
): Promise<Signed> {
  try {
    await store.append(stream, events, expectedAt(revision));
    return 'done';
  } catch (error) {
    if (error instanceof RevisionConflictError) return 'later';
    throw error;
  }
}

/** A token that a transaction holds waits for the end of the transaction. */
export async function signToken(work: SigningWork, tenantId: string, id: string): Promise<Signed> {
  const { store, keyRing, clock, outcomes } = work;
  const history = await readTokenHistory({ store, outcomes }, tenantId, id);
  if (history.isPending) return 'later';
  if (history.state.kind !== 'present' || history.state.details.content.signature !== undefined)
    return 'done';
  const { type } = history.state.details;
  const data = { token_id: id, token_type: type };
  const plain = systemContext(tenantId, 'upgrade', clock).event(TokenSigned, data);
  const events = await signTokenEvents(keyRing, tenantId, [plain], history);
  return append(work, streams.token(tenantId, id), events, history.revision);
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

/** A running invocation waits for its end: its runner appends the outcome at a revision that it knows. */
export async function signInvocation(work: SigningWork, tenantId: string, id: string): Promise<Signed> {
  const { store, keyRing, clock } = work;
  const stream = streams.invocation(tenantId, id);
  const events: RecordedEvent[] = [];
  for await (const event of store.readStream(stream)) events.push(event);
  const invoked = events[0];
  if (invoked?.type !== 'ReactorInvoked' || events.some((event) => signatureOf(event) !== undefined))
    return 'done';
  if (events.some(({ type }) => type === 'ReactorStarted') && !events.some(isOutcome)) return 'later';
  const { invocation_id, reactor_id } = invoked.data;
  const revision = events.length - 1;
  const hashes = await keyRing.hashes(tenantId);
  const signature = hashes.sign(invocationStatement(invoked.data, invoked.metadata), revision + 1);
  const context = systemContext(tenantId, 'upgrade', clock);
  const event = context.event(ReactorInvocationSigned, { invocation_id, reactor_id });
  return append(work, stream, [{ ...event, data: { ...event.data, signature } }], revision);
}

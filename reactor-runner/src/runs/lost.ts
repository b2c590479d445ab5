import { streams } from '@token-vault/contracts';
import { readHistory } from './invocation.ts';
import { lostRun } from './outcome.ts';
import { destroyArguments, recordOutcome, type RecordDependencies } from './record.ts';

/**
 * Ends a started run that has no outcome at its deadline, because its runner is gone. Any process may call it; the
 * append lets one succeed.
 */
export async function failLostRun(
  dependencies: RecordDependencies,
  tenantId: string,
  invocationId: string,
): Promise<void> {
  const stream = streams.invocation(tenantId, invocationId);
  const { invocation, deadline, outcome, revision } = await readHistory(dependencies.store, stream);
  if (!invocation || outcome || deadline === undefined || deadline > dependencies.clock.now()) return;
  if (await recordOutcome(dependencies, invocation, lostRun, { revision }))
    await destroyArguments(dependencies.keyRing, invocation);
}

import { ForbiddenError } from '@token-vault/contracts';
import { recordingRefusal } from '@token-vault/operations';
import type { RunOrigin } from './ports.ts';

/** Records the refusal of a step of a run before it is thrown. Refusals of operations that the code asks for are recorded by the executor. */
export const recordingStep = <Result>(
  record: RunOrigin['recordRefusal'],
  decide: () => Promise<Result>,
): Promise<Result> =>
  recordingRefusal(async (refusal) => {
    const isOfStep = refusal instanceof ForbiddenError;
    if (isOfStep) await record(refusal);
    return isOfStep;
  }, decide);

/** Records each refusal of a step of running code, before the code is told of it. All steps of runs and of proxies pass here. */
export function recordingRefusals(origin: RunOrigin): RunOrigin {
  const step = <Result>(decide: () => Promise<Result>) => recordingStep(origin.recordRefusal, decide);

  return {
    ...origin,
    requireActing: () => step(origin.requireActing),
    requireSendable: () => step(origin.requireSendable),
    useNamed: (named) => step(() => origin.useNamed(named)),
    guess: (isMiss, work) => step(() => origin.guess(isMiss, work)),
  };
}

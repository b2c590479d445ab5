import { ForbiddenError } from '@token-vault/contracts';
import { isUnrecorded, noteRecorded } from '@token-vault/operations';
import type { RunOrigin } from './ports.ts';

/** Records the refusal of a step of a run before it is thrown. */
export async function recordingRefusal<Result>(
  record: RunOrigin['recordRefusal'],
  decide: () => Promise<Result>,
): Promise<Result> {
  try {
    return await decide();
  } catch (error) {
    // The executor has recorded what it refused itself.
    if (error instanceof ForbiddenError && isUnrecorded(error)) {
      await record(error);
      noteRecorded(error);
    }
    throw error;
  }
}

/** Records each refusal of a step of running code, before the code is told of it. All steps of runs and of proxies pass here. */
export function recordingRefusals(origin: RunOrigin): RunOrigin {
  const step = <Result>(decide: () => Promise<Result>) => recordingRefusal(origin.recordRefusal, decide);

  return {
    ...origin,
    requireActing: () => step(origin.requireActing),
    requireSendable: () => step(origin.requireSendable),
    useNamed: (named) => step(() => origin.useNamed(named)),
    guess: (isMiss, work) => step(() => origin.guess(isMiss, work)),
  };
}

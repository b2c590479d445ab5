import { ForbiddenError } from '@token-vault/contracts';
import { isUnrecorded, noteRecorded } from '@token-vault/operations';
import type { RunOrigin } from './ports.ts';

/** Records each refusal of a step of running code, before the code is told of it. All steps of runs and of proxies pass here. */
export function recordingRefusals(origin: RunOrigin): RunOrigin {
  async function step<Result>(decide: () => Promise<Result>): Promise<Result> {
    try {
      return await decide();
    } catch (error) {
      // The executor has recorded what it refused itself.
      if (error instanceof ForbiddenError && isUnrecorded(error)) {
        await origin.recordRefusal(error);
        noteRecorded(error);
      }
      throw error;
    }
  }

  return {
    ...origin,
    requireActing: () => step(origin.requireActing),
    requireSendable: () => step(origin.requireSendable),
    useNamed: (named) => step(() => origin.useNamed(named)),
    guess: (isMiss, work) => step(() => origin.guess(isMiss, work)),
  };
}

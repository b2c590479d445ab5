import { describe } from 'vitest';
import { describeSweptKinds } from './key-sweep-kinds.ts';
import { describeReplacedLogs, describeSharedServer } from './key-sweep-replaced-log.ts';
import { useKeySweep, type KeySweepLog } from './key-sweep-setup.ts';
import { describeSweptTokens } from './key-sweep-tokens.ts';

/** The sweep of keys without events on a real key ring and a log of this kind. */
export function describeKeySweep(name: string, options: KeySweepLog): void {
  describe(`the sweep of keys without events, with the log ${name}`, () => {
    const sweep = useKeySweep(options);
    describeSweptKinds(sweep);
    describeSweptTokens(sweep);
    describeReplacedLogs(sweep);
    if (options.writeForeignEvents) describeSharedServer(sweep);
  });
}

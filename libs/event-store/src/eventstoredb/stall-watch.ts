import { comparePositions, EventStoreUnavailableError, type Position } from '../port.ts';
import type { LiveLog } from './live-log.ts';
import type { LogEnd } from './log-end.ts';

interface Watched {
  readonly log: LiveLog;
  readonly progress: { readonly position: Position };
  readonly logEnd: () => Promise<LogEnd>;
  readonly intervalMs: number;
}

/**
 * Fails a subscription that receives nothing although the log grows: a server may forget a subscription, or a network may drop its packets,
 * without an error. It counts as stalled after two checks in a row, because a follower may be behind the leader at one check. Returns the
 * function that stops the watch.
 */
export function watchForStall({ log, progress, logEnd, intervalMs }: Watched): () => void {
  let messagesBefore = -1;
  let isSuspect = false;
  let isStopped = false;

  async function check(): Promise<void> {
    const isSilent = log.messages === messagesBefore && !log.hasReceived && !log.isPaused;
    messagesBefore = log.messages;
    if (!isSilent) return void (isSuspect = false);
    const { head } = await logEnd();
    const isBehind = comparePositions(head, progress.position) > 0 && log.messages === messagesBefore;
    if (isBehind && isSuspect) log.fail(new EventStoreUnavailableError('the subscription has stalled'));
    isSuspect = isBehind;
  }

  function schedule(): NodeJS.Timeout {
    return setTimeout(() => {
      check()
        .catch((error: unknown) => log.fail(error as Error))
        .finally(() => {
          if (!isStopped) timer = schedule();
        });
    }, intervalMs);
  }

  let timer = schedule();
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}

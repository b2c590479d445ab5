import type { Following } from './thread-shares.ts';

/** The work for a smaller value takes less than a millisecond, so that it does not wait for a turn. */
export const largeBytes = 16 * 1024;
/** The work that follows from a value (checks, copies, sealing, storing, projections) takes about a millisecond for this number of bytes. */
const bytesOfFollowingMs = 64 * 1024;
/**
 * Together with Postgres, and with all other turns of the thread, a value takes about a millisecond of the processors for this number of bytes:
 * 69 ms for 500 KB of data of a token, whether a body brings all of it or a patch changes one property.
 */
const bytesOfMs = 8 * 1024;

/** The work that follows from a value of this size. */
export const followingOf = (bytes: number): Following => ({
  ms: bytes / bytesOfFollowingMs,
  besideOthersMs: bytes / bytesOfMs,
});

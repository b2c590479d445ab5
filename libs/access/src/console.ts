import type { Principal } from './principal.ts';

/** Whether the caller is shown fingerprints: equal ones tell of equal data. */
export const seesFingerprints = ({ shownAtMost }: Principal): boolean => shownAtMost === undefined;

/** A token is used in plaintext, so a caller that is not shown plaintext cannot use any. */
export const mayUseTokens = ({ shownAtMost }: Principal): boolean => shownAtMost === undefined;

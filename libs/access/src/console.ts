import type { Principal } from './principal.ts';

/** Whether fingerprints are shown to the caller. Equal fingerprints reveal that data is equal. */
export const seesFingerprints = ({ shownAtMost }: Principal): boolean => shownAtMost === undefined;

/** A token is used in plaintext, so a caller that is not shown plaintext cannot use any. */
export const mayUseTokens = ({ shownAtMost }: Principal): boolean => shownAtMost === undefined;

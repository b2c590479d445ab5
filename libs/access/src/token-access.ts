import type { Transform } from '@token-vault/contracts';

/** The decision about one token. */
export type TokenAccess =
  | {
      readonly isGranted: true;
      readonly transform: Transform;
      /** A rule with `break_glass` reveals the token: the record of the access says so, and a webhook reports it. */
      readonly isBreakGlass?: true;
    }
  | {
      readonly isGranted: false;
      /** Set when a rule would grant the access with a reason. */
      readonly needsReason?: true;
    };

/** The data is shown in plaintext, and not by a rule with `break_glass`. */
export const showsPlaintext = (access: TokenAccess): boolean =>
  access.isGranted && access.transform === 'reveal' && access.isBreakGlass !== true;

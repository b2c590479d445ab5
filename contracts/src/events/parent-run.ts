import type { ActorKind } from '../metadata.ts';
import type { SeenToken } from './outcome-content.ts';

/** Code of a reactor or of a proxy, as it was at a revision. `keyId`: the key of the proxy by which it was called. */
export type CodeOwner =
  | { readonly reactorId: string; readonly revision: number }
  | { readonly proxyId: string; readonly revision: number; readonly keyId?: string | undefined };

/**
 * A run whose code asked for another run, directly or by further runs. The code may have given it any data that it had.
 * So the inner run is decided by the rights to that data too. A type alias, so that it is accepted as JSON.
 */
export type ParentRun = {
  /** The caller in whose name the code runs. */
  readonly actor: { readonly kind: ActorKind; readonly id: string };
  /** Of a session: the application that authorised it. */
  readonly authorizedBy?: string | undefined;
  readonly reason?: string | undefined;
  /** The hash of the key that the caller used. */
  readonly keyHash?: string | undefined;
  /** RFC 3339. When the caller asked for the run. */
  readonly since: string;
  /** The position of that request in the log. Unset for a proxy. */
  readonly position?: string | undefined;
  /** The tokens of the arguments. */
  readonly tokenIds: readonly string[];
  readonly owner: CodeOwner;
  /** The tokens that the code had been shown. */
  readonly seen: readonly SeenToken[];
  /** False when there are others, which are not named. */
  readonly isSeenComplete: boolean;
  /** RFC 3339. The end of the first cvc that the code was given. Unset when there is none, and in what an older release stored. */
  readonly cvcEndsAt?: string | undefined;
};

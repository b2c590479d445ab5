import type { Json, OperationId } from '@token-vault/contracts';
import type { Work } from './twins.ts';

/** A request of a caller. */
export interface Asked {
  readonly operation: OperationId;
  readonly params?: unknown;
  readonly query?: unknown;
  readonly body?: unknown;
  readonly transactionId?: string;
}

/** The answer to a caller, and everything in it that the caller can measure. */
export interface Told {
  readonly status: number | undefined;
  readonly body: Json;
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * The work of the vault before the answer. When the work is equal, the time is equal, as far as the code determines
   * it.
   */
  readonly work?: Work;
}

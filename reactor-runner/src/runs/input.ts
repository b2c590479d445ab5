import type { Json, ParentRun } from '@token-vault/contracts';
import type { RunOrigin } from './ports.ts';

/** The input of the code. */
export interface Input extends Pick<RunOrigin, 'shownAtMost'> {
  readonly code: string;
  readonly args: Json;
  readonly configuration: Readonly<Record<string, string>>;
  readonly applicationId: string | undefined;
  /** The runs that the run is nested in. */
  readonly parents: readonly ParentRun[];
}

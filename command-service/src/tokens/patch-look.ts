import type { Json, PatchTokenBody } from '@token-vault/contracts';
import { readPathsOf, type ReadPath } from '@token-vault/expressions';

/** The relation of a patch to an expression, found without the stored data. */
export interface Look {
  readonly changesData: boolean;
  readonly changesMetadata: boolean;
  /** The expression reads data that is not in the patch. */
  readonly readsHidden: boolean;
}

/** The effect of the patch on a property that an expression reads. */
type Fate = 'kept' | 'replaced' | 'merged';

function fateOf(path: ReadPath, patch: Json | undefined): Fate {
  if (patch === undefined) return 'kept';
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return 'replaced';
  const [property, ...rest] = path;
  if (property === undefined) return 'merged';
  return Object.hasOwn(patch, property) ? fateOf(rest, patch[property]) : 'kept';
}

export function lookOfPatch(expression: string, { data, metadata }: PatchTokenBody): Look {
  const fates = (root: string, patch: Json | undefined): Fate[] =>
    readPathsOf(expression).flatMap(([name, ...path]) => (name === root ? [fateOf(path, patch)] : []));
  const ofData = fates('data', data);
  return {
    changesData: ofData.some((fate) => fate !== 'kept'),
    changesMetadata: fates('metadata', metadata).some((fate) => fate !== 'kept'),
    readsHidden: ofData.some((fate) => fate !== 'replaced'),
  };
}

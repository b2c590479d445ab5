import type { Json, PatchTokenBody } from '@token-vault/contracts';
import { readPathsOf, type ReadPath } from '@token-vault/expressions';

/** The effect of a patch on an expression, computed without the stored data. */
interface PatchEffect {
  readonly changesData: boolean;
  readonly changesMetadata: boolean;
  /** The expression reads data that is not in the patch. */
  readonly readsHidden: boolean;
}

/** The effect of the patch on a property that an expression reads. */
type PropertyEffect = 'kept' | 'replaced' | 'merged';

function propertyEffect(path: ReadPath, patch: Json | undefined): PropertyEffect {
  if (patch === undefined) return 'kept';
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return 'replaced';
  const [property, ...rest] = path;
  if (property === undefined) return 'merged';
  return Object.hasOwn(patch, property) ? propertyEffect(rest, patch[property]) : 'kept';
}

export function effectOfPatch(expression: string, { data, metadata }: PatchTokenBody): PatchEffect {
  const effects = (root: string, patch: Json | undefined): PropertyEffect[] =>
    readPathsOf(expression).flatMap(([name, ...path]) =>
      name === root ? [propertyEffect(path, patch)] : [],
    );
  const onData = effects('data', data?.expose());
  return {
    changesData: onData.some((effect) => effect !== 'kept'),
    changesMetadata: effects('metadata', metadata).some((effect) => effect !== 'kept'),
    readsHidden: onData.some((effect) => effect !== 'replaced'),
  };
}

/** The expressions of a mask, of search indexes, or of a fingerprint. */
export function expressionsIn(value: Json | readonly string[] | undefined): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(expressionsIn);
}

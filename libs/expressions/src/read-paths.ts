import { engine } from './engine.ts';
import { containsExpression } from './compile.ts';

/** A path that an expression reads: the bound name, then properties. An ending is left out where it is not certain. */
export type ReadPath = readonly string[];

const everything: readonly ReadPath[] = [['data'], ['metadata']];
/**
 * These also tell of the value that they are asked of: its size, or an item of an array or a character of a text, which are gone when
 * a merge puts an object in its place (RFC 7386).
 */
const computedProperty = /^(size|first|last|length|-?[0-9]+)$/;

/** These read, and show, a number of that name; the analysis does not know it. */
const counts = /\b(in|de)crement\b/;

/**
 * What an expression may read of `data` and `metadata`, without evaluating it: never less than it reads. Brackets may compute
 * which name or property is read, so an expression with any counts as reading everything, as does one that cannot be analysed.
 */
export function readPathsOf(source: string): readonly ReadPath[] {
  if (!containsExpression(source)) return [];
  if (source.includes('[') || counts.test(source)) return everything;
  try {
    const paths = engine.variableSegmentsSync(source);
    return paths.filter(([root]) => root === 'data' || root === 'metadata').map(certainPart);
  } catch {
    return everything;
  }
}

function certainPart(segments: readonly unknown[]): ReadPath {
  const path: string[] = [];
  for (const segment of segments) {
    if (typeof segment !== 'string' || computedProperty.test(segment)) break;
    path.push(segment);
  }
  return path;
}

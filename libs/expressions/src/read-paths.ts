import { engine } from './engine.ts';
import { containsExpression } from './compile.ts';

/** A path that an expression reads: the bound name, then properties. Ends before the first part that is not certain. */
export type ReadPath = readonly string[];

const everything: readonly ReadPath[] = [['data'], ['metadata']];
/**
 * These names also mean a property of the value itself: its size, or an item of an array or a character of a text. Such a property
 * disappears when a merge replaces the value by an object (RFC 7386).
 */
const computedProperty = /^(size|first|last|length|-?[0-9]+)$/;

/** These tags read and show a number of that name; the analysis does not know them. */
const counts = /\b(in|de)crement\b/;

/**
 * The parts of `data` and `metadata` that an expression may read, without evaluating it: never less than it reads. Brackets may compute the
 * name or the property, so an expression with brackets counts as reading all data; so does one that cannot be analysed.
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

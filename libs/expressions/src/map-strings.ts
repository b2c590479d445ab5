import { ExpressionSyntaxError, nameField } from './errors.ts';
import { fieldPath, type Key } from './field-path.ts';
import { setOwn, type Json } from './json.ts';
import { limits } from './limits.ts';

/** A copy in which every string value is mapped; keys are never expressions. Errors name the path of the string. */
export function mapStrings(
  root: string,
  value: Json,
  map: (text: string, path: readonly Key[]) => Json,
): Json {
  const path: Key[] = [];
  const at = (key: Key, item: Json): Json => {
    path.push(key);
    const mapped = visit(item);
    path.pop();
    return mapped;
  };
  const visit = (item: Json): Json => {
    if (typeof item === 'string') return map(item, path);
    if (typeof item !== 'object' || item === null) return item;
    if (path.length >= limits.depth)
      throw new ExpressionSyntaxError(`It must be at most ${limits.depth} levels deep.`, undefined, root);
    if (Array.isArray(item)) return item.map((each, index) => at(index, each));
    const copy: Record<string, Json> = {};
    for (const [key, each] of Object.entries(item)) setOwn(copy, key, at(key, each));
    return copy;
  };
  try {
    return visit(value);
  } catch (error) {
    throw nameField(error, fieldPath(root, path));
  }
}

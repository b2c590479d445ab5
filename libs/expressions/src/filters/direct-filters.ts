import { isSingularPath } from './json-path.ts';

/**
 * Filters of Liquid that the short cut also implements, over text and with one text argument or none. The default search indexes use
 * `remove`; the others are as common. The results are equal to those of the engine.
 */
const standardFilters: Readonly<Record<string, (value: string, argument: string) => string>> = {
  append: (value, argument) => value + argument,
  downcase: (value) => value.toLowerCase(),
  prepend: (value, argument) => argument + value,
  remove: (value, argument) => value.split(argument).join(''),
  upcase: (value) => value.toUpperCase(),
};
const withoutArgument: ReadonlySet<string> = new Set(['downcase', 'upcase']);

/** The filter as a function of the text; undefined when the engine is needed. */
export function standardFilter(
  name: string,
  literals: readonly unknown[],
): ((value: string) => string) | undefined {
  const apply = Object.hasOwn(standardFilters, name) ? standardFilters[name] : undefined;
  const [argument = ''] = literals;
  const isSuited = literals.length === (withoutArgument.has(name) ? 0 : 1) && typeof argument === 'string';
  return apply && isSuited ? (value) => apply(value, argument) : undefined;
}

/** An alias that is equal to its value is drawn again. */
const weightOfAliases = 16;

/**
 * Steps of one of our filters for each character or node of its value. 0 for one that reads few of them. Undefined for a filter whose number of steps is not limited, e.g. a
 * JSONPath that searches for its value.
 */
export function weightOf(name: string, [path]: readonly unknown[]): number | undefined {
  if (name === 'last4') return 0;
  if (name === 'json') return typeof path === 'string' && isSingularPath(path) ? 0 : undefined;
  return name.startsWith('alias_') ? weightOfAliases : 1;
}

import { JSONPathEnvironment, JSONPathRecursionLimitError, jsonpath, type JSONPathQuery } from 'json-p3';
import { measure, type Json } from '../json.ts';
import { limits } from '../limits.ts';
import { LinearMatch } from './linear-match.ts';

const { expressions, selectors } = jsonpath;
type FilterExpression = InstanceType<typeof expressions.FilterExpression>;
type Selector = InstanceType<typeof selectors.JSONPathSelector>;
type Node = Parameters<Selector['resolve']>[0];

export class JsonPathLimitError extends Error {
  override readonly name = 'JsonPathLimitError';
}

/** Remaining steps of the current evaluation. Evaluation is synchronous, so one counter serves every query. */
let stepsLeft = 0;

function spend(steps: number): void {
  stepsLeft -= steps;
  if (stepsLeft < 0) throw new JsonPathLimitError('steps');
}

function childCount(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

class LimitedEnvironment extends JSONPathEnvironment {
  override setupFilterFunctions(): void {
    super.setupFilterFunctions();
    // The library runs I-Regexp on V8's backtracking engine, which `(a+)+$` over stored data would block for hours.
    this.functionRegister.set('match', new LinearMatch('whole', spend));
    this.functionRegister.set('search', new LinearMatch('part', spend));
  }
}

const environment = new LimitedEnvironment({ maxRecursionDepth: limits.depth + 2 });

/** Whether a filter compares two queries, which may compare whole documents. */
function comparesQueries(expression: FilterExpression): boolean {
  if (expression instanceof expressions.LogicalExpression) return comparesQueries(expression.expression);
  if (expression instanceof expressions.PrefixExpression) return comparesQueries(expression.right);
  if (!(expression instanceof expressions.InfixExpression)) return false;
  const { left, right } = expression;
  const isLiteral = (side: FilterExpression) => side instanceof expressions.FilterExpressionLiteral;
  if (!expression.logical) return !isLiteral(left) && !isLiteral(right);
  return comparesQueries(left) || comparesQueries(right);
}

function meterExpression(expression: FilterExpression): void {
  if (expression instanceof expressions.LogicalExpression) meterExpression(expression.expression);
  else if (expression instanceof expressions.PrefixExpression) meterExpression(expression.right);
  else if (expression instanceof expressions.InfixExpression) {
    meterExpression(expression.left);
    meterExpression(expression.right);
  } else if (expression instanceof expressions.FunctionExtension) expression.args.forEach(meterExpression);
  else if (expression instanceof expressions.FilterQuery) meterQuery(expression.path);
}

/** Counts a step for each node of the selector: every visit of a query, nested or not, calls this. */
function meterSelector(selector: Selector): void {
  const resolve = selector.resolve.bind(selector);
  const isSingular =
    selector instanceof selectors.NameSelector || selector instanceof selectors.IndexSelector;
  const isComparing = selector instanceof selectors.FilterSelector && comparesQueries(selector.expression);
  selector.resolve = (node: Node) => {
    const children = isSingular ? 0 : childCount(node.value);
    const weight = isComparing && children > 0 ? Math.ceil(measure(node.root, limits.value) / 16) : 1;
    spend(1 + children * weight);
    return resolve(node);
  };
  if (selector instanceof selectors.FilterSelector) meterExpression(selector.expression);
}

function meterQuery(query: JSONPathQuery): void {
  for (const segment of query.segments) segment.selectors.forEach(meterSelector);
}

export interface JsonPath {
  /** The first two selected values, which show whether there is exactly one. @throws {JsonPathLimitError} */
  firstTwo(value: Json): readonly Json[];
}

/** Whether a valid path names one place, such as `$.data.number`, and so takes as many steps as it has names. */
export function isSingularPath(path: string): boolean {
  try {
    return environment.compile(path).singularQuery();
  } catch {
    return false;
  }
}

/** Compiles an RFC 9535 query without evaluating code; undefined when it is not valid. */
export function compileJsonPath(path: string): JsonPath | undefined {
  let query: JSONPathQuery;
  try {
    query = environment.compile(path);
    meterQuery(query);
  } catch {
    return undefined;
  }
  return {
    firstTwo(value) {
      stepsLeft = limits.jsonPathSteps;
      const found: Json[] = [];
      try {
        for (const node of query.lazyQuery(value)) {
          found.push(node.value as Json);
          if (found.length === 2) break;
        }
      } catch (error) {
        if (error instanceof JSONPathRecursionLimitError || error instanceof RangeError)
          throw new JsonPathLimitError('depth');
        throw error;
      }
      return found;
    },
  };
}

import { FunctionExpressionType } from 'json-p3';
import { compileRegexp, type Regexp } from './i-regexp.ts';

const cachedPatterns = 32;

/**
 * RFC 9535's `match` (the whole string) and `search` (a part of it) in time linear in the string, by simulating the
 * pattern's automaton instead of backtracking. A pattern that is not an I-Regexp (RFC 9485) matches nothing.
 */
export class LinearMatch {
  readonly argTypes = [FunctionExpressionType.ValueType, FunctionExpressionType.ValueType];
  readonly returnType = FunctionExpressionType.LogicalType;
  readonly #scope: 'whole' | 'part';
  readonly #spend: (steps: number) => void;
  readonly #compiled = new Map<string, Regexp | undefined>();

  constructor(scope: 'whole' | 'part', spend: (steps: number) => void) {
    this.#scope = scope;
    this.#spend = spend;
  }

  call(text: unknown, pattern: unknown): boolean {
    if (typeof text !== 'string' || typeof pattern !== 'string') return false;
    return this.#compile(pattern)?.test(text, this.#scope, this.#spend) ?? false;
  }

  #compile(pattern: string): Regexp | undefined {
    if (this.#compiled.has(pattern)) return this.#compiled.get(pattern);
    if (this.#compiled.size >= cachedPatterns) this.#compiled.clear();
    const compiled = compileRegexp(pattern);
    this.#compiled.set(pattern, compiled);
    return compiled;
  }
}

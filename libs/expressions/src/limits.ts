/**
 * Bounds on what one expression may cost. They are far above honest use (a default mask takes microseconds) and keep a
 * hostile template, which any caller with token:create can store, from holding the event loop or the heap.
 */
export const limits = {
  /** Characters of one expression. decisions.md allows 400 for a fingerprint; masks are not bounded there. */
  sourceLength: 8_192,
  /** Longer expressions are compiled at each use instead of staying in memory. */
  cachedSourceLength: 1_024,
  /** Compiled expressions kept in each of the two generations of the cache. */
  cacheGeneration: 2_048,
  /** Milliseconds of one evaluation, shared by all expressions of a mask; checked between steps, so a step may overrun. */
  renderMs: 250,
  /** Characters and array elements that filters, ranges and output may allocate together: 8 times the largest data. */
  memory: 4 * 1024 * 1024,
  /** Size (see `measure`) of any value a filter gives, and of a result. */
  value: 2 * 1024 * 1024,
  /** Elements of an array that a filter takes: bounds what `sort` can cost within one step. */
  filterArray: 300_000,
  /** Steps of one JSONPath evaluation, about a microsecond each; `$..x` over the largest data takes some 100,000. */
  jsonPathSteps: 250_000,
  jsonPathLength: 1_000,
  /** Nesting of a mask or of reactor arguments. */
  depth: 100,
  /** Size of what a mask shows. */
  maskOutput: 4 * 1024 * 1024,
  /** Expressions of one mask. */
  maskExpressions: 1_000,
  /** Length that pad_left and pad_right may be asked for. */
  padLength: 65_536,
  /** Size of reactor arguments after detokenization. */
  substituted: 16 * 1024 * 1024,
  /** Milliseconds that all expressions of reactor arguments may take together. */
  substituteMs: 1_000,
} as const;

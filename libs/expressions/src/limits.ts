/**
 * Limits of the cost of expressions. They are far above normal use (a default mask takes microseconds). Any caller with token:create can
 * store a template: the limits prevent that a hostile one blocks the event loop or a worker, or fills the heap.
 */
export const limits = {
  /** Characters of one expression. rules.md allows 400 for a fingerprint expression and sets no limit for masks. */
  sourceLength: 8_192,
  /** Filters of one value. */
  filters: 20,
  /** Outputs, tags, texts between them, and filters of one expression. */
  parts: 500,
  /** Longer expressions are compiled at each use instead of being cached. */
  cachedSourceLength: 1_024,
  /** Compiled expressions kept in each of the two generations of the cache. */
  cacheGeneration: 2_048,

  /**
   * Limit of one mask, or another list of expressions, on the thread that serves requests, in steps of 20 to 60 ns. A step is a character
   * or node that a filter handles. Work above the limit goes to a worker.
   */
  threadSteps: 16_384,
  /** The same for all expressions of a request. */
  threadStepsOfRequest: 131_072,
  /**
   * Both are counted in whole units, so that what is left for a token does not tell exactly what those before it took: a mask that a caller
   * chose for tokens of its own could measure hidden data. A page of a thousand tokens has room.
   */
  threadStepsUnit: 128,
  memoryUnit: 16 * 1024,
  /** Number of steps for parsing one character. */
  stepsOfParsing: 8,

  /** Milliseconds of processor time of one mask or another list of expressions in a worker. */
  jobMs: 250,
  /** The same for one request: a page of a hundred tokens, a tokenize payload, the arguments of a reactor. */
  requestMs: 500,
  /** Characters and array elements that filters, ranges and output may allocate together: 8 times the largest data. */
  memory: 4 * 1024 * 1024,
  /** The same for all expressions of a request. */
  memoryOfRequest: 16 * 1024 * 1024,
  /** Size (see `measure`) of any value that a filter returns, and of a result. */
  value: 2 * 1024 * 1024,
  /** Size of the results of one mask, or another list of expressions. */
  output: 4 * 1024 * 1024,
  /** The same for all expressions of a request. */
  outputOfRequest: 8 * 1024 * 1024,

  /** Elements of an array that a filter accepts: limits the time of `sort` within one step. */
  filterArray: 300_000,
  /** Steps of one JSONPath evaluation, about a microsecond each; `$..x` over the largest data takes some 100,000. */
  jsonPathSteps: 250_000,
  jsonPathLength: 1_000,
  /** Nesting of a mask or of reactor arguments. */
  depth: 100,
  /** Expressions of one mask. */
  maskExpressions: 1_000,
  /** Largest length for pad_left and pad_right. */
  padLength: 65_536,
  /** References to tokens in reactor arguments, of at most 100 tokens. */
  references: 1_000,
  /** Characters of the filters of all references together. */
  referenceFilters: 16_384,
  /** Bytes of reactor arguments after detokenization, as JSON (rules.md §3). */
  substituted: 1_048_576,
} as const;

/**
 * Runs a query by callback instead of by promise. With a promise, V8 keeps parameters and rows until the next full collection, once the
 * client object is in the old generation (ADR 13). The `query` of a pool already uses a callback.
 */
export function byCallback<Result>(
  ask: (answer: (error: Error | null, result: Result) => void) => unknown,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    ask((error, result) => {
      if (error) reject(error);
      else resolve(result);
    });
  });
}

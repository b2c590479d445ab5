/**
 * What a query gives, asked for by callback. Of queries asked for by promise, V8 keeps parameters and rows until the next full
 * collection, once the client is old (ADR 13). The `query` of a pool does this by itself.
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

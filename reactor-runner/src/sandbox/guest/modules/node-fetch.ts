const { fetch, Headers, Request, Response, Blob, FormData } = globalThis;

export { Blob, fetch, FormData, Headers, Request, Response };
export class FetchError extends Error {
  override readonly name = 'FetchError';
}
export class AbortError extends Error {
  override readonly name = 'AbortError';
}
export default fetch;

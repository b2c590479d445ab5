export type EgressErrorCode =
  | 'aborted'
  | 'invalid-request'
  | 'network'
  | 'refused-address'
  | 'refused-scheme'
  | 'request-too-large'
  | 'response-too-large'
  | 'timeout'
  | 'too-many-redirects'
  | 'unexpected-redirect'
  | 'unsupported';

/**
 * The reason why an outgoing request failed. Its message may be shown to guest code and logged: it names no address
 * and no data.
 */
export class EgressError extends Error {
  override readonly name = 'EgressError';
  readonly code: EgressErrorCode;

  constructor(code: EgressErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

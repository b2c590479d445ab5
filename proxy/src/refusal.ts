import { DomainError, FieldForbiddenError, ValidationError } from '@token-vault/contracts';
import { EgressError, type EgressErrorCode } from '@token-vault/egress';

const refuse = (reason: string) => () => new FieldForbiddenError(['SVC-PROXY-URL'], reason);
const failed = (detail: string) => () => new DomainError('destination_failed', detail);
const invalid = () => ValidationError.of('request', 'cannot be sent as it is');

/** The problem that the caller gets when there is no answer. It holds no text of the destination. */
const errors: Readonly<Record<EgressErrorCode, () => DomainError>> = {
  'refused-address': refuse('leads to an address or a port to which requests are not allowed'),
  'refused-scheme': refuse('must be https'),
  'request-too-large': () =>
    new DomainError(
      'payload_too_large',
      'The request body is larger than 16 MiB with the data of its tokens.',
    ),
  'response-too-large': failed('The destination answered with more than 16 MiB.'),
  timeout: () =>
    new DomainError('destination_timed_out', 'The destination did not answer in time. It may have acted.'),
  network: failed(
    'The destination could not be reached, or closed the connection before it answered. It may have acted.',
  ),
  aborted: failed('The exchange was aborted. The destination may have acted.'),
  'invalid-request': invalid,
  unsupported: invalid,
  'too-many-redirects': invalid,
  'unexpected-redirect': invalid,
};

/** An exchange that failed, as the error that its caller is answered. */
export const asRefusal = (error: unknown): unknown =>
  error instanceof EgressError ? errors[error.code]() : error;

/** Code is given a refusal as an error of its own. When the code fails, the refusal is the answer. */
export class Refusals {
  #first: unknown;

  get first(): unknown {
    return this.#first;
  }

  /** @throws what `decided` throws */
  async keep(decided: Promise<unknown>): Promise<void> {
    try {
      await decided;
    } catch (error) {
      this.#first ??= error;
      throw error;
    }
  }
}

/** An export or import that cannot be done. The message is one line for the operator, without data. */
export class TransferError extends Error {
  readonly code = 'transfer_refused';
}

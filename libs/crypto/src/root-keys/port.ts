/** Wraps and unwraps tenant keys: a local 32-byte key, or a KMS. Called once for each tenant and cache period, never for each request. */
export interface RootKeyProvider {
  /** A stable name of the key and its version, which wrapped keys record. Not secret. */
  readonly id: string;
  wrap(plaintext: Buffer, aad: Buffer): Promise<Buffer>;
  /** @throws SealBrokenError when `wrapped` was not made with this key and `aad`. */
  unwrap(wrapped: Buffer, aad: Buffer): Promise<Buffer>;
}

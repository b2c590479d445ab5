/**
 * What wraps tenant keys: a local 32-byte key, or a KMS. Called once for each tenant and cache period, never for each
 * request.
 */
export interface RootKeyProvider {
  /** Names the key and its version, stably: wrapped keys record it. Not secret. */
  readonly id: string;
  wrap(plaintext: Buffer, aad: Buffer): Promise<Buffer>;
  /** @throws SealBrokenError when `wrapped` is not of this key and `aad`. */
  unwrap(wrapped: Buffer, aad: Buffer): Promise<Buffer>;
}

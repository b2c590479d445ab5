import { keyLength } from './aead.ts';

export interface DataKeyIdentity {
  /** UUID; part of every value sealed under the key. */
  readonly id: string;
  readonly tenantId: string;
  /** The entity that the key belongs to, e.g. `token:<id>`. All keys of an entity can be destroyed together. */
  readonly entity: string;
  /** The use of the key within the entity, e.g. `data` or `cvc`. */
  readonly purpose: string;
}

/** The key that seals data of one entity. Its bytes never appear in text, JSON or `util.inspect`. */
export class DataKey implements DataKeyIdentity {
  readonly id: string;
  readonly tenantId: string;
  readonly entity: string;
  readonly purpose: string;
  readonly #bytes: Buffer;
  #isWiped = false;

  /** @param bytes 32 random bytes; the key owns the buffer from now on. */
  constructor(identity: DataKeyIdentity, bytes: Buffer) {
    if (bytes.length !== keyLength) throw new TypeError('a data key has 32 bytes');
    this.id = identity.id;
    this.tenantId = identity.tenantId;
    this.entity = identity.entity;
    this.purpose = identity.purpose;
    this.#bytes = bytes;
  }

  /** @throws TypeError after `wipe`: zero bytes must never be used as a key. */
  exposeBytes(): Buffer {
    if (this.#isWiped) throw new TypeError('the data key was wiped');
    return this.#bytes;
  }

  /** Overwrites the bytes in memory. Call it when no more values are sealed or opened; a second call is harmless. */
  wipe(): void {
    this.#isWiped = true;
    this.#bytes.fill(0);
  }

  [Symbol.dispose](): void {
    this.wipe();
  }
}

const lengthDelimited = 2;
/** Bytes of the fields with a fixed length, by wire type. */
const fixedLengths: Readonly<Record<number, number>> = { 1: 8, 5: 4 };

/**
 * Reads a message of protocol buffers, field by field. The generated classes take several times as long for each event of a replay: they
 * make an object for every part of the message.
 */
export class ProtobufReader {
  readonly #bytes: Buffer;
  #at = 0;
  #wireType = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Calls `read` for each field of the message. `read` must read the value or skip it. @throws RangeError when the message is cut off. */
  eachField(read: (field: number) => void, end = this.#bytes.length): void {
    while (this.#at < end) {
      const tag = Number(this.#varint());
      this.#wireType = tag & 7;
      read(tag >>> 3);
    }
    if (this.#at > end) throw new RangeError('a field of the message is longer than the message');
  }

  /** As `eachField`, for the message in this field. */
  message(read: (field: number) => void): void {
    this.eachField(read, this.#openLength());
  }

  /** An unsigned number of up to 64 bits, as a decimal text. */
  uint64(): string {
    return String(this.#varint());
  }

  text(): string {
    const end = this.#openLength();
    const text = this.#bytes.toString('utf8', this.#at, end);
    this.#at = end;
    return text;
  }

  bytes(): Uint8Array {
    const end = this.#openLength();
    const bytes = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }

  skip(): void {
    if (this.#wireType === 0) this.#varint();
    else if (this.#wireType === lengthDelimited) this.#at = this.#openLength();
    else this.#at += fixedLengths[this.#wireType] ?? Infinity;
  }

  #openLength(): number {
    const end = Number(this.#varint()) + this.#at;
    if (end > this.#bytes.length) throw new RangeError('the message is cut off');
    return end;
  }

  #varint(): number | bigint {
    const start = this.#at;
    let value = 0;
    for (let factor = 1; factor < 2 ** 49; factor *= 128) {
      const byte = this.#byte();
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    this.#at = start;
    return this.#longVarint();
  }

  #longVarint(): bigint {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#byte();
      value += BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, value);
    }
  }

  #byte(): number {
    const byte = this.#bytes[this.#at++];
    if (byte === undefined) throw new RangeError('the message is cut off');
    return byte;
  }
}

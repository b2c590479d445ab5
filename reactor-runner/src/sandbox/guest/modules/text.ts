/** `TextEncoder`, `TextDecoder` (utf-8, utf-16le, latin1), `atob` and `btoa` for a bare V8 context. */
export class TextEncoder {
  readonly encoding = 'utf-8';

  encode(text: unknown = ''): Uint8Array {
    const source = String(text).toWellFormed();
    const bytes = new Uint8Array(source.length * 3);
    return bytes.slice(0, this.#write(source, bytes).written);
  }

  encodeInto(text: string, bytes: Uint8Array): { read: number; written: number } {
    return this.#write(text.toWellFormed(), bytes);
  }

  #write(text: string, bytes: Uint8Array): { read: number; written: number } {
    let read = 0;
    let written = 0;
    while (read < text.length) {
      const point = text.codePointAt(read) as number;
      const size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
      if (written + size > bytes.length) break;
      writePoint(bytes, written, point, size);
      written += size;
      read += point > 0xffff ? 2 : 1;
    }
    return { read, written };
  }
}

function writePoint(bytes: Uint8Array, at: number, point: number, size: number): void {
  if (size === 1) {
    bytes[at] = point;
    return;
  }
  for (let rest = point, index = size - 1; index > 0; index--, rest >>= 6)
    bytes[at + index] = 0x80 | (rest & 0x3f);
  bytes[at] = ((0xf00 >> size) & 0xff) | (point >> (6 * (size - 1)));
}

const labels: Readonly<Record<string, string>> = {
  'utf-8': 'utf-8',
  utf8: 'utf-8',
  'utf-16le': 'utf-16le',
  'utf-16': 'utf-16le',
  latin1: 'latin1',
  'iso-8859-1': 'latin1',
  ascii: 'latin1',
  'windows-1252': 'latin1',
};

export class TextDecoder {
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  #held: Uint8Array = new Uint8Array(0);

  constructor(
    label = 'utf-8',
    { fatal = false, ignoreBOM = false }: { fatal?: boolean; ignoreBOM?: boolean } = {},
  ) {
    const encoding = labels[String(label).toLowerCase().trim()];
    if (encoding === undefined) throw new RangeError(`The encoding "${label}" is not supported`);
    this.encoding = encoding;
    this.fatal = fatal;
    this.ignoreBOM = ignoreBOM;
  }

  decode(input?: ArrayBuffer | ArrayBufferView, { stream = false } = {}): string {
    let bytes = joined(this.#held, toBytes(input));
    this.#held = new Uint8Array(0);
    if (stream) {
      const whole = this.encoding === 'utf-8' ? completeLength(bytes) : bytes.length & ~1;
      this.#held = bytes.slice(whole);
      bytes = bytes.subarray(0, whole);
    }
    const text =
      this.encoding === 'utf-8' ? decodeUtf8(bytes, this.fatal) : decodeUnits(bytes, this.encoding);
    return !this.ignoreBOM && text.startsWith('\ufeff') ? text.slice(1) : text;
  }
}

function toBytes(input: ArrayBuffer | ArrayBufferView | undefined): Uint8Array {
  if (input === undefined) return new Uint8Array(0);
  return ArrayBuffer.isView(input)
    ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength)
    : new Uint8Array(input);
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  if (first.length === 0) return second;
  const bytes = new Uint8Array(first.length + second.length);
  bytes.set(first);
  bytes.set(second, first.length);
  return bytes;
}

/** The length without an incomplete sequence at the end. */
function completeLength(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return size > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

function fromPoints(points: number[]): string {
  let text = '';
  for (let at = 0; at < points.length; at += 4_096)
    text += String.fromCodePoint(...points.slice(at, at + 4_096));
  return text;
}

function decodeUnits(bytes: Uint8Array, encoding: string): string {
  const units: number[] = [];
  const step = encoding === 'latin1' ? 1 : 2;
  for (let at = 0; at + step <= bytes.length; at += step) {
    units.push((bytes[at] as number) | (step === 2 ? (bytes[at + 1] as number) << 8 : 0));
  }
  let text = '';
  for (let at = 0; at < units.length; at += 4_096)
    text += String.fromCharCode(...units.slice(at, at + 4_096));
  return text;
}

const minimum = [0, 0, 0x80, 0x800, 0x10000];

function decodeUtf8(bytes: Uint8Array, fatal: boolean): string {
  const points: number[] = [];
  let at = 0;
  while (at < bytes.length) {
    const { point, size } = readPoint(bytes, at);
    if (point < 0 && fatal) throw new TypeError('The data is not valid utf-8');
    points.push(point < 0 ? 0xfffd : point);
    at += size;
  }
  return fromPoints(points);
}

function sequenceSize(first: number): number {
  if (first >= 0xf0 && first < 0xf5) return 4;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xc2 && first < 0xe0 ? 2 : 0;
}

function readPoint(bytes: Uint8Array, at: number): { point: number; size: number } {
  const first = bytes[at] as number;
  if (first < 0x80) return { point: first, size: 1 };
  const size = sequenceSize(first);
  if (size === 0) return { point: -1, size: 1 };
  let point = first & (0xff >> (size + 1));
  for (let index = 1; index < size; index++) {
    const byte = bytes[at + index];
    if (byte === undefined || (byte & 0xc0) !== 0x80) return { point: -1, size: index };
    point = (point << 6) | (byte & 0x3f);
  }
  const isScalar =
    point >= (minimum[size] as number) && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
  return { point: isScalar ? point : -1, size };
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

export function btoa(input: unknown): string {
  const text = String(input);
  let out = '';
  for (let at = 0; at < text.length; at += 3) {
    const codes = [0, 1, 2].map((offset) => text.charCodeAt(at + offset));
    if (codes.some((code) => code > 255)) throw new TypeError('The text holds characters outside of Latin1');
    const [a = 0, b = 0, c = 0] = codes.map((code) => (Number.isNaN(code) ? 0 : code));
    const left = text.length - at;
    out += `${alphabet[a >> 2]}${alphabet[((a & 3) << 4) | (b >> 4)]}`;
    out += `${left > 1 ? alphabet[((b & 15) << 2) | (c >> 6)] : '='}${left > 2 ? alphabet[c & 63] : '='}`;
  }
  return out;
}

export function atob(input: unknown): string {
  const text = String(input)
    .replace(/[\t\n\f\r ]+/g, '')
    .replace(/={1,2}$/, '');
  if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text)) throw new TypeError('The text is not base64');
  let out = '';
  let bits = 0;
  let held = 0;
  for (const character of text) {
    held = (held << 6) | alphabet.indexOf(character);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += String.fromCharCode((held >> bits) & 255);
  }
  return out;
}

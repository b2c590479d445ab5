import { BackupError } from './format.ts';

const newline = 0x0a;
/** A damaged byte is an error, not another character. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textOf(bytes: Buffer): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new BackupError('the file has bytes that are not UTF-8');
  }
}

/**
 * The lines of a UTF-8 text, in batches, without line ends. Only a line feed ends a line: data may hold other
 * separators.
 * @throws BackupError for bytes that are not UTF-8
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<readonly string[], void> {
  let rest: Buffer[] = [];
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(newline);
    if (end < 0) {
      rest.push(chunk);
      continue;
    }
    const whole = Buffer.concat([...rest, chunk.subarray(0, end)]);
    rest = end + 1 < chunk.length ? [chunk.subarray(end + 1)] : [];
    yield textOf(whole).split('\n');
  }
  if (rest.length > 0) yield [textOf(Buffer.concat(rest))];
}

/** The first column of a row. It is a UUID, which COPY does not escape. */
const keyOf = (line: string): string => line.slice(0, 36);

/** Reads rows in ascending order of their first column and finds keys in them. */
class Cursor {
  readonly #batches: AsyncIterator<readonly string[]>;
  #batch: readonly string[] = [];
  #index = 0;
  #key: string | undefined = '';

  constructor(rows: AsyncIterable<readonly string[]>) {
    this.#batches = rows[Symbol.asyncIterator]();
  }

  /** Moves to the first row at or after `key`. */
  async has(key: string): Promise<boolean> {
    while (this.#key !== undefined && this.#key < key) {
      if (this.#index >= this.#batch.length) await this.#nextBatch();
      else this.#key = risen(this.#key, keyOf(this.#batch[this.#index++] ?? ''));
    }
    return this.#key === key;
  }

  async #nextBatch(): Promise<void> {
    const next = await this.#batches.next();
    this.#index = 0;
    this.#batch = next.done === true ? [] : next.value;
    if (next.done === true) this.#key = undefined;
  }

  async close(): Promise<void> {
    await this.#batches.return?.();
  }
}

/** Rows out of order would be skipped silently. @throws BackupError */
function risen(before: string, key: string): string {
  if (key <= before) throw new BackupError('a list of keys is not in order: it was altered');
  return key;
}

type Batches = AsyncIterable<readonly string[]>;

/**
 * The rows whose first column, a UUID, is one of `included`. Both inputs are ascending, so memory use is constant for any length.
 * @throws BackupError when an input is out of order
 */
export async function* among(rows: Batches, included: Batches): AsyncGenerator<readonly string[], void> {
  const cursor = new Cursor(included);
  let last = '';
  try {
    for await (const batch of rows) {
      const kept: string[] = [];
      for (const line of batch) {
        last = risen(last, keyOf(line));
        if (await cursor.has(last)) kept.push(line);
      }
      if (kept.length > 0) yield kept;
    }
  } finally {
    await cursor.close();
  }
}

import { open, type FileHandle } from 'node:fs/promises';
import { sealOverheadBytes, type Sealed } from './sealing.ts';

/** age seals this many bytes together, and gives them when the next byte comes. */
const sealedTogether = 64 * 1024;
const sealedBytes = sealedTogether + sealOverheadBytes;

/**
 * A sealed file that is written page by page. A page whose end waits in memory until other pages come could be written long after it was
 * decided. So each page is filled up with spaces, which JSON ignores, and the next page is decided when this one is in the file.
 */
export class SealedFile {
  #plainBytes = 0;
  #writtenBytes = 0;
  #headerBytes = 0;
  #onWritten: (() => void) | undefined;
  #isEnded = false;

  /** The lines of a part that is not waited for. */
  take(lines: string): Buffer {
    const bytes = Buffer.from(lines);
    this.#plainBytes += bytes.length;
    return bytes;
  }

  /** The lines of a page, filled up: only the last line feed is sealed later. @param lines ends with a line feed */
  fill(lines: string): Buffer {
    const text = Buffer.from(lines.slice(0, -1));
    const over = (this.#plainBytes + text.length) % sealedTogether;
    const spaces = Buffer.alloc(over === 0 ? 0 : sealedTogether - over, ' ');
    const bytes = Buffer.concat([text, spaces, Buffer.from('\n')]);
    this.#plainBytes += bytes.length;
    return bytes;
  }

  /** Resolves when the pages so far are in the file. @throws when no more is written */
  async written(): Promise<void> {
    const chunks = Math.floor(this.#plainBytes / sealedTogether);
    while (this.#writtenBytes < this.#headerBytes + chunks * sealedBytes) {
      if (this.#isEnded) throw new Error('the page is not written');
      await new Promise<void>((resolve) => (this.#onWritten = resolve));
    }
  }

  /**
   * Writes all of it into a new file that only its owner can read. It is durable at the end.
   * @param seal begins the pages; called when the file is open
   */
  async write(file: string, seal: () => Promise<Sealed>): Promise<void> {
    const handle = await open(file, 'wx', 0o600);
    try {
      const { stream, headerBytes } = await seal();
      this.#headerBytes = headerBytes;
      for await (const chunk of stream as AsyncIterable<Uint8Array>) await this.#append(handle, chunk);
      await handle.sync();
    } finally {
      this.#end();
      await handle.close();
    }
  }

  async #append(handle: FileHandle, chunk: Uint8Array): Promise<void> {
    try {
      await handle.appendFile(chunk);
    } catch (error) {
      // The end of `sealed` waits for the pages, which may wait for the file.
      this.#end();
      throw error;
    }
    this.#writtenBytes += chunk.length;
    this.#onWritten?.();
  }

  #end(): void {
    this.#isEnded = true;
    this.#onWritten?.();
  }
}

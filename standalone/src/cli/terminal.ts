import { once } from 'node:events';

/** Where a command writes, what it is given and what ends it early. */
export interface Terminal {
  readonly environment: NodeJS.ProcessEnv;
  /** Results: what a script reads. */
  readonly print: (text: string) => void;
  /** As `print`, and waits while the reader is slower: for output of any length. */
  readonly printDrained: (text: string) => Promise<void>;
  /** Everything else: progress, notes. */
  readonly note: (text: string) => void;
  /** Rewrites the last line instead of adding one; undefined where there is no terminal. */
  readonly rewrite: ((text: string) => void) | undefined;
  /** Ctrl-C, once: long work stops where it is. */
  readonly interrupted: AbortSignal;
}

/** Of this process. A second Ctrl-C ends it at once; what it leaves is taken up by the next command. */
export function processTerminal(): Terminal {
  const abort = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (abort.signal.aborted) process.exit(130);
      abort.abort();
    });
  }
  const { stdout, stderr } = process;
  return {
    environment: process.env,
    print: (text) => void stdout.write(`${text}\n`),
    async printDrained(text) {
      if (!stdout.write(`${text}\n`)) await once(stdout, 'drain');
    },
    note: (text) => void stderr.write(`${text}\n`),
    // Back to the beginning of the line, and away with what stood there.
    rewrite: stderr.isTTY ? (text) => void stderr.write(`\r\u001B[K${text}`) : undefined,
    interrupted: abort.signal,
  };
}

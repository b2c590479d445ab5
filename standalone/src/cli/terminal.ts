import { once } from 'node:events';

/** The output, input and interrupt of a command. */
export interface Terminal {
  readonly environment: NodeJS.ProcessEnv;
  /** Writes results, which scripts read. */
  readonly print: (text: string) => void;
  /** As `print`, and waits for a slower reader: for output of any length. */
  readonly printDrained: (text: string) => Promise<void>;
  /** Writes progress and notes. */
  readonly note: (text: string) => void;
  /** Rewrites the last line instead of adding one. Undefined where there is no terminal. */
  readonly rewrite: ((text: string) => void) | undefined;
  /** Aborted by the first Ctrl-C: long work stops at its present position. */
  readonly interrupted: AbortSignal;
}

/** The terminal of this process. A second Ctrl-C ends the process at once; the next command continues the work. */
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
    // Moves to the beginning of the line and erases the old text.
    rewrite: stderr.isTTY ? (text) => void stderr.write(`\r\u001B[K${text}`) : undefined,
    interrupted: abort.signal,
  };
}

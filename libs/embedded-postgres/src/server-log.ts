import type { Logger } from './logger.ts';

const levels = {
  LOG: 'debug',
  INFO: 'debug',
  NOTICE: 'debug',
  WARNING: 'warn',
  ERROR: 'warn',
  FATAL: 'warn',
  PANIC: 'error',
} as const;

const recentLines = 20;

/**
 * Converts Postgres' stderr into log entries, one for each message. Lines that do not begin a message (a continued text, the STATEMENT of a
 * panic) could contain data and are dropped. They are kept in memory only until the server is up, to explain a start that failed.
 */
export class ServerLog {
  readonly #logger: Logger;
  #recent: string[] = [];
  #rest = '';
  #isUp = false;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  write(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = (lines.pop() ?? '').slice(-4096);
    for (const line of lines) this.#take(line);
  }

  /** Call once the server accepts connections: from then on lines may contain data of clients. */
  serverIsUp(): void {
    this.#isUp = true;
    this.#recent = [];
  }

  /** One line that says why the server did not start. */
  complaint(): string {
    const messages = this.#recent.map((line) => /^(LOG|FATAL|PANIC):\s+(.*)/.exec(line));
    const cause = messages.findLast((match) => match?.[1] === 'LOG' && match[2]?.startsWith('could not'));
    const fatal = messages.findLast((match) => match && match[1] !== 'LOG');
    const parts = [cause?.[2], fatal?.[2]].filter((part) => part !== undefined);
    return parts.join('; ') || (this.#recent.at(-1) ?? 'it ended without a message');
  }

  #take(line: string): void {
    if (!this.#isUp && line.trim() !== '') this.#recent = [...this.#recent.slice(1 - recentLines), line];
    const match = /^(LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC):\s+(.*)/.exec(line);
    if (!match) return;
    this.#logger[levels[match[1] as keyof typeof levels]]({ component: 'postgres' }, match[2] ?? '');
  }
}

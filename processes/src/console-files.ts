import type { ConsoleFiles } from '@token-vault/http';

/** Loaded at the first request for a page, because the bundler is large. */
export const consoleFiles = async (): Promise<ConsoleFiles> =>
  (await import('@token-vault/console')).consoleFiles();

import { createRequire } from 'node:module';

/** Of the vault, as its package says. */
export const { version: release } = createRequire(import.meta.url)('../package.json') as {
  readonly version: string;
};

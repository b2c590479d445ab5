import { createRequire } from 'node:module';

/** The release of the vault, from its package.json. */
export const { version: release } = createRequire(import.meta.url)('../package.json') as {
  readonly version: string;
};

import { createSandboxPool, type SandboxPool, type SandboxPoolOptions } from '../sandbox/index.ts';

export type LazySandbox = Pick<SandboxPool, 'run' | 'compile' | 'close'>;

/** A pool that starts at its first use: most vaults have no reactors, and its processes take memory. */
export function createLazySandbox(options: SandboxPoolOptions): LazySandbox {
  let starting: Promise<SandboxPool> | undefined;
  const pool = (): Promise<SandboxPool> => {
    starting ??= createSandboxPool(options).catch((error: unknown) => {
      starting = undefined;
      throw error;
    });
    return starting;
  };
  return {
    run: async (request) => (await pool()).run(request),
    compile: async (request) => (await pool()).compile(request),
    async close() {
      await (await starting?.catch(() => undefined))?.close();
    },
  };
}

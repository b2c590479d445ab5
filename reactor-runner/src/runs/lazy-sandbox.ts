import {
  createSandboxPool,
  inspectWalls,
  type SandboxPool,
  type SandboxPoolOptions,
} from '../sandbox/index.ts';

export type LazySandbox = Pick<SandboxPool, 'run' | 'compile' | 'close'>;

/**
 * A pool that starts at its first use: most vaults have no reactors, and its processes take memory. The walls that
 * the host allows are reported at once. The end does not wait for the probe of the walls, which takes long on a busy machine.
 */
export function createLazySandbox(given: Omit<SandboxPoolOptions, 'signal'>): LazySandbox {
  const stop = new AbortController();
  const options = { ...given, signal: stop.signal };
  let starting: Promise<SandboxPool> | undefined;
  const pool = (): Promise<SandboxPool> => {
    starting ??= createSandboxPool(options).catch((error: unknown) => {
      starting = undefined;
      throw error;
    });
    return starting;
  };
  const inspected = inspectWalls(options).then(
    (walls) => options.report?.({ kind: 'walls', walls }),
    () => stop.signal.aborted || options.report?.({ kind: 'children-do-not-start' }),
  );
  return {
    run: async (request) => (await pool()).run(request),
    compile: async (request) => (await pool()).compile(request),
    async close() {
      stop.abort();
      await inspected;
      await (await starting?.catch(() => undefined))?.close();
    },
  };
}

import { findAddon } from './bundle.ts';
import { createChildAccounts, defaultAccountRange } from './child-accounts.ts';
import { defaultSandboxLimits } from './limits.ts';
import type { SandboxPoolOptions } from './pool-types.ts';
import type { Walls } from './wall-kinds.ts';
import { findWallTools, probeWalls } from './walls.ts';

/** Loads the addon of a child, reports it, and waits to be ended. */
const program = `process.dlopen({ exports: {} }, process.argv[1]);
  new (require('node:net').Socket)({ fd: 3 }).on('close', () => process.abort()).write('up');`;

/** The walls that this host allows, found without a pool and its bundles: one short process when it allows all. @throws the reason of `signal` */
export async function inspectWalls(
  options: Pick<SandboxPoolOptions, 'accounts' | 'limits' | 'signal'>,
): Promise<Walls> {
  const accounts = createChildAccounts(options.accounts ?? defaultAccountRange);
  const limits = { ...defaultSandboxLimits, ...options.limits };
  const tools = await findWallTools();
  return probeWalls({ program, addonPath: findAddon() }, limits, { tools, accounts, signal: options.signal });
}

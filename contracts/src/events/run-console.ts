import { z } from 'zod';

const consoleLevels = ['debug', 'error', 'info', 'log', 'warn'] as const;

/** What code printed by one call of its console. */
export const consoleLine = z.object({ level: z.enum(consoleLevels), text: z.string() });
export type ConsoleLine = Readonly<z.infer<typeof consoleLine>>;

/** The sealed lines that the code of a run printed (ADR 46). */
export const runConsole = z.object({
  lines: z.array(consoleLine),
  /** True when lines were dropped because the limits were reached. */
  isCut: z.boolean(),
  /** The code was given or made a token, could call the vault, or was invoked by other code. Then no lines are kept, because they may hold its data. */
  sawTokens: z.boolean(),
  /** RFC 3339. */
  endsAt: z.string(),
});
export type RunConsole = z.infer<typeof runConsole>;

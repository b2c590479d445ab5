import { z } from 'zod';

const consoleLevels = ['debug', 'error', 'info', 'log', 'warn'] as const;

/** The output of one call of a console method by the code. */
export const consoleLine = z.object({ level: z.enum(consoleLevels), text: z.string() });
export type ConsoleLine = Readonly<z.infer<typeof consoleLine>>;

/** The sealed lines that the code of a run printed (ADR 46). */
export const runConsole = z.object({
  lines: z.array(consoleLine),
  /** True when lines were dropped because the limits were reached. */
  isCut: z.boolean(),
  /**
   * The code got or made a token, could call the vault, or was invoked by other code. Then no lines are kept, because they may hold token
   * data.
   */
  sawTokens: z.boolean(),
  /** RFC 3339. */
  endsAt: z.string(),
});
export type RunConsole = z.infer<typeof runConsole>;

import { z } from 'zod';
import { transforms } from '../permissions.ts';

const consoleLevels = ['debug', 'error', 'info', 'log', 'warn'] as const;

/** What code printed by one call of its console. */
export const consoleLine = z.object({ level: z.enum(consoleLevels), text: z.string() });
export type ConsoleLine = Readonly<z.infer<typeof consoleLine>>;

/**
 * The sealed lines that the code of a run printed (ADR 46). The lines may hold the data of each token that the code was given, was shown or
 * made. These tokens decide who sees the lines, so they are sealed together.
 */
export const runConsole = z.object({
  lines: z.array(consoleLine),
  /** True when lines were dropped because the limits were reached. */
  isCut: z.boolean(),
  /** `transform`: how the code was shown the token at most. */
  tokens: z.array(z.object({ id: z.string(), transform: z.enum(transforms) })),
  /** False when the code was shown other tokens too. */
  areAllNamed: z.boolean(),
  /** The application or session that asked for the run. */
  invokedBy: z.string(),
  /** RFC 3339. */
  endsAt: z.string(),
});
export type RunConsole = z.infer<typeof runConsole>;

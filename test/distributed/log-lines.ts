/** A line of the log of a process. */
interface Line {
  readonly service: string;
  readonly level: number;
  readonly msg: string;
  readonly error_code?: string;
  readonly code?: string;
  readonly reason?: string;
  /** Of a line that tells of further warnings like one before. */
  readonly count?: number;
}

export const linesOf = (output: string): readonly Line[] =>
  output
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Line);

/** How many lines there are of each kind. */
export function countsOf(
  lines: readonly Line[],
  kindOf: (line: Line) => string,
): Readonly<Record<string, number>> {
  const kinds = Object.groupBy(lines, kindOf);
  return Object.fromEntries(Object.entries(kinds).map(([kind, alike]) => [kind, alike?.length ?? 0]));
}

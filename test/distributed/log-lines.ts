/** A line of the log of a process. */
interface Line {
  readonly service: string;
  readonly level: number;
  readonly msg: string;
  readonly error_code?: string;
  readonly code?: string;
  readonly reason?: string;
  readonly stack?: string;
  readonly task?: string;
  /** The number of further equal warnings that the line reports. */
  readonly count?: number;
}

export const linesOf = (output: string): readonly Line[] =>
  output
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Line);

/** The number of lines of each kind. */
export function countsOf(
  lines: readonly Line[],
  kindOf: (line: Line) => string,
): Readonly<Record<string, number>> {
  const kinds = Object.groupBy(lines, kindOf);
  return Object.fromEntries(Object.entries(kinds).map(([kind, alike]) => [kind, alike?.length ?? 0]));
}

/** A text table: columns as wide as their widest cell, two spaces apart, as in `ls` and `docker ps`. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head.map((cell) => cell.toUpperCase()), ...rows];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** A value as one line of JSON, in which control characters are escaped: JSON itself lets some of them stand, which control a terminal too. */
export const printableJson = (value: unknown): string =>
  JSON.stringify(value).replaceAll(/\p{C}/gu, (found) =>
    [...Array(found.length).keys()]
      .map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, '0')}`)
      .join(''),
  );

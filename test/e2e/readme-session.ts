/**
 * One bash script of the ```sh blocks under the heading "A session", in order. It ends at the first command that fails.
 * @throws Error when there is no such heading, or nothing to run under it: a README that lost its session is not tested.
 */
export function sessionOf(markdown: string): string {
  const lines = markdown.split(/\r?\n/);
  const blocks: string[] = [];
  let fence: string | undefined;
  let level = 0;
  for (const line of lines) {
    const mark = /^```(\w*)/.exec(line);
    if (mark && fence === undefined) {
      fence = mark[1] ?? '';
      if (level > 0 && fence === 'sh') blocks.push('');
    } else if (mark) {
      fence = undefined;
    } else if (fence === undefined) {
      level = sectionAfter(line, level);
    } else if (level > 0 && fence === 'sh') {
      blocks.push(`${blocks.pop() ?? ''}${line}\n`);
    }
  }
  if (blocks.length === 0) throw new Error('README.md has no ```sh block under a heading "A session"');
  return ['set -euo pipefail', ...blocks].join('\n');
}

/** Level of the heading "A session" that this line is in; 0 outside of it. Deeper headings belong to it. */
function sectionAfter(line: string, level: number): number {
  const heading = /^(#+)\s+(.*?)\s*$/.exec(line);
  if (!heading) return level;
  const depth = heading[1]?.length ?? 0;
  if (/^a session$/i.test(heading[2] ?? '')) return depth;
  return level > 0 && depth > level ? level : 0;
}

interface Block {
  /** What stands after the opening fence: `sh`, `console`, `python` …; '' if nothing. */
  readonly language: string;
  readonly text: string;
  /** Headings that it stands under, from the outermost. */
  readonly headings: readonly string[];
}

/** The fenced blocks of a document, in order. */
export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  let headings: { readonly depth: number; readonly title: string }[] = [];
  let open: { readonly language: string; readonly lines: string[] } | undefined;
  for (const line of markdown.split(/\r?\n/)) {
    const fence = /^```(\w*)/.exec(line);
    const heading = /^(#+)\s+(.*?)\s*$/.exec(line);
    if (fence && open) {
      const text = open.lines.map((each) => `${each}\n`).join('');
      blocks.push({ language: open.language, text, headings: headings.map(({ title }) => title) });
      open = undefined;
    } else if (fence) {
      open = { language: fence[1] ?? '', lines: [] };
    } else if (open) {
      open.lines.push(line);
    } else if (heading) {
      const depth = heading[1]?.length ?? 0;
      headings = [...headings.filter((each) => each.depth < depth), { depth, title: heading[2] ?? '' }];
    }
  }
  return blocks;
}

/**
 * One bash script of the ```sh blocks, in order. It ends at the first command that fails.
 * @param heading only the blocks under it, those of deeper headings included
 * @throws Error when there is nothing to run: a document that lost its commands is not tested.
 */
export function scriptOf(markdown: string, heading?: string): string {
  const isUnder = ({ headings }: Block) =>
    heading === undefined || headings.some((title) => title.toLowerCase() === heading.toLowerCase());
  const blocks = blocksOf(markdown).filter((block) => block.language === 'sh' && isUnder(block));
  if (blocks.length === 0)
    throw new Error(
      `there is no \`\`\`sh block${heading === undefined ? '' : ` under a heading "${heading}"`}`,
    );
  return ['set -euo pipefail', ...blocks.map(({ text }) => text)].join('\n');
}

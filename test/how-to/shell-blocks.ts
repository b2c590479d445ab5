interface Block {
  /** The text after the opening fence: `sh`, `console`, `python` …; '' if there is none. */
  readonly language: string;
  readonly text: string;
  /** The headings above it, from the outermost. */
  readonly headings: readonly string[];
}

/** The fenced blocks of a document, in order. */
export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  let headings: { readonly depth: number; readonly title: string }[] = [];
  let open: { readonly language: string; readonly indent: number; readonly lines: string[] } | undefined;
  for (const line of markdown.split(/\r?\n/)) {
    const fence = /^( *)```(\w*)/.exec(line);
    const heading = /^(#+)\s+(.*?)\s*$/.exec(line);
    if (fence && open) {
      const text = open.lines.map((each) => `${each}\n`).join('');
      blocks.push({ language: open.language, text, headings: headings.map(({ title }) => title) });
      open = undefined;
    } else if (fence) {
      open = { language: fence[2] ?? '', indent: fence[1]?.length ?? 0, lines: [] };
    } else if (open) {
      // The block is in a step of a list, so its indentation is removed.
      open.lines.push(line.slice(Math.min(open.indent, line.search(/\S|$/))));
    } else if (heading) {
      const depth = heading[1]?.length ?? 0;
      headings = [...headings.filter((each) => each.depth < depth), { depth, title: heading[2] ?? '' }];
    }
  }
  return blocks;
}

export interface ScriptOptions {
  /** Only the blocks under this heading, those of deeper headings included. */
  readonly under?: string;
  /**
   * Commands for steps that a heading's text tells the reader to do elsewhere. They run before the first block under
   * the heading.
   */
  readonly before?: Readonly<Record<string, string>>;
}

/**
 * One bash script of the ```sh blocks, in order. It ends at the first command that fails.
 * @throws Error when the document, or the heading, has no commands: a document that lost its commands would not be
 * tested.
 */
export function scriptOf(markdown: string, { under, before = {} }: ScriptOptions = {}): string {
  const blocks = blocksOf(markdown).filter(
    ({ language, headings }) => language === 'sh' && (under === undefined || headings.includes(under)),
  );
  if (blocks.length === 0)
    throw new Error(`there is no \`\`\`sh block${under === undefined ? '' : ` under a heading "${under}"`}`);
  const texts = blocks.map(({ text }) => text);
  for (const [heading, commands] of Object.entries(before)) {
    const first = blocks.findIndex(({ headings }) => headings.includes(heading));
    if (first < 0) throw new Error(`there is no \`\`\`sh block under a heading "${heading}"`);
    texts[first] = `${commands}\n${texts[first] ?? ''}`;
  }
  return ['set -euo pipefail', ...texts].join('\n');
}

/** One bash script of the commands in the ```console blocks, in order. The prompt `$ ` begins a command. */
export const consoleScriptOf = (markdown: string): string =>
  [
    'set -euo pipefail',
    ...blocksOf(markdown)
      .filter(({ language }) => language === 'console')
      .map(({ text }) => text.replace(/^\$ /gm, '')),
  ].join('\n');

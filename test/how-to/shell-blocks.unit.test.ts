import { describe, expect, it } from 'vitest';
import { blocksOf, scriptOf } from './shell-blocks.ts';

const fenced = (language: string, ...lines: string[]) => ['```' + language, ...lines, '```'];

const markdown = [
  '# The vault',
  ...fenced('sh', 'npm start'),
  '## A session',
  'Some words.',
  ...fenced('sh', 'KEY=1', '# not a heading'),
  ...fenced('json', '{"an": "answer"}'),
  '### More of it',
  ...fenced('sh', 'echo "$KEY"'),
  '## What else',
  ...fenced('sh', 'rm -rf everything'),
].join('\n');

describe('the script of a document', () => {
  it('is every shell block, and nothing else', () => {
    expect(scriptOf(markdown)).toBe(
      'set -euo pipefail\nnpm start\n\nKEY=1\n# not a heading\n\necho "$KEY"\n\nrm -rf everything\n',
    );
  });

  it('is every shell block under a heading, those of deeper headings included, if one is named', () => {
    expect(scriptOf(markdown, { under: 'A session' })).toBe(
      'set -euo pipefail\nKEY=1\n# not a heading\n\necho "$KEY"\n',
    );
  });

  it('must have commands', () => {
    expect(() => scriptOf('# The vault\n')).toThrow('there is no ```sh block');
    expect(() => scriptOf('# The vault\n', { under: 'A session' })).toThrow('under a heading "A session"');
    expect(() => scriptOf('## A session\n\nSoon.\n', { under: 'A session' })).toThrow(
      'under a heading "A session"',
    );
    expect(() => scriptOf(fenced('console', 'docker compose up').join('\n'))).toThrow(
      'there is no ```sh block',
    );
  });

  it('is without the indentation of a block that belongs to a step of a list', () => {
    const list = ['1. Do this:', '', '   ```sh', '   if true; then', '     echo yes', '', '   fi', '   ```'];
    expect(scriptOf(list.join('\n'))).toBe('set -euo pipefail\nif true; then\n  echo yes\n\nfi\n');
  });

  it('runs the reader’s other steps before the first block under a heading, which must exist', () => {
    expect(scriptOf(markdown, { before: { 'What else': 'kill 1' } })).toMatch(
      /\nkill 1\nrm -rf everything\n$/,
    );
    expect(() => scriptOf(markdown, { before: { Nowhere: 'kill 1' } })).toThrow('under a heading "Nowhere"');
  });

  it('gives blocks of other languages only on request', () => {
    expect(blocksOf(markdown).find(({ language }) => language === 'json')).toEqual({
      language: 'json',
      text: '{"an": "answer"}\n',
      headings: ['The vault', 'A session'],
    });
  });
});

import { describe, expect, it } from 'vitest';
import { sessionOf } from './readme-session.ts';

const fenced = (language: string, ...lines: string[]) => ['```' + language, ...lines, '```'];

describe('the session of a README', () => {
  it('is every shell block under its heading, those of deeper headings included, and nothing else', () => {
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
    expect(sessionOf(markdown)).toBe('set -euo pipefail\nKEY=1\n# not a heading\n\necho "$KEY"\n');
  });

  it('must not be missing', () => {
    expect(() => sessionOf('# The vault\n')).toThrow('no ```sh block under a heading "A session"');
    expect(() => sessionOf('## A session\n\nSoon.\n')).toThrow('no ```sh block');
  });
});

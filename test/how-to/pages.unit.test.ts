import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { howToDirectory } from './reader.ts';
import { blocksOf } from './shell-blocks.ts';

const pages = readdirSync(howToDirectory).map((file) => path.basename(file, '.md'));
const blocks = (page: string) => blocksOf(readFileSync(path.join(howToDirectory, `${page}.md`), 'utf8'));
const tests = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.slow.test.ts'))
  .map((file) => readFileSync(path.join(import.meta.dirname, file), 'utf8'))
  .join('\n');

/** Pages whose commands cannot run where the tests run. Each page gives the reason. */
const notRun = ['deploy', 'run-with-systemd'];

describe('the how-tos', () => {
  it.each(pages.filter((page) => page !== 'README' && !notRun.includes(page)))(
    '%s has blocks to run, and a test that follows it',
    (page) => {
      expect(blocks(page).map(({ language }) => language)).toContain('sh');
      expect(tests).toContain(`follow('${page}'`);
    },
  );

  it.each(notRun)('%s has no block that looks like a tested one', (page) => {
    expect(blocks(page).map(({ language }) => language)).not.toContain('sh');
  });

  it('name the npm script as the reader runs it: silent, so that a redirected result is nothing but the result', () => {
    const all = pages.flatMap(blocks).map(({ text }) => text);
    expect(all.filter((text) => text.includes('npm run vault'))).toEqual([]);
  });
});

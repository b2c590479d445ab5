import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
const pages = [...globSync('docs/**/*.md', { cwd: root }), 'README.md', 'CONTRIBUTING.md'];
/** Code in a page may look like a link. */
const withoutCode = (text: string): string => text.replaceAll(/```[\s\S]*?```|`[^`\n]*`/g, '');

it.each(pages)('every link of %s leads to a file', (page) => {
  const text = withoutCode(readFileSync(path.join(root, page), 'utf8'));
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link.replace(/#.*$/, ''));
  const missing = links.filter(
    (link) =>
      link !== '' && !/^[a-z]+:/.test(link) && !existsSync(path.resolve(root, path.dirname(page), link)),
  );
  expect(missing).toEqual([]);
});

const glossary = readFileSync(path.join(root, 'docs/reference/glossary.md'), 'utf8');
it('every place that the glossary names is there', () => {
  const places = [...glossary.matchAll(/`((?:[\w-]+\/)+[\w.-]+)`/g)].map(([, place = '']) => place);
  expect(places.filter((place) => !place.startsWith('pci') && !existsSync(path.join(root, place)))).toEqual(
    [],
  );
  expect(places.length).toBeGreaterThan(40);
});

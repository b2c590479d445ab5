import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

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

it('no table of a page has a second head', () => {
  const headsOf = (table: string): number => [...table.matchAll(/^\|[ :|-]+\|$/gm)].length;
  const faulty = pages.filter((page) => {
    const text = readFileSync(path.join(root, page), 'utf8');
    return [...text.matchAll(/(^\|.*\n)+/gm)].some(([table]) => headsOf(table) > 1);
  });
  expect(faulty).toEqual([]);
});

const glossary = readFileSync(path.join(root, 'docs/reference/glossary.md'), 'utf8');
it('every file that the glossary names exists', () => {
  const places = [...glossary.matchAll(/`((?:[\w-]+\/)+[\w.-]+)`/g)].map(([, place = '']) => place);
  expect(places.filter((place) => !place.startsWith('pci') && !existsSync(path.join(root, place)))).toEqual(
    [],
  );
  expect(places.length).toBeGreaterThan(40);
});

const recipes = globSync('docs/contributing/*.md', { cwd: root });
/** The paths in inline code and commands. Places that a recipe tells the reader to make are left out. */
function placesOf(page: string): string[] {
  const text = readFileSync(path.join(root, page), 'utf8');
  const code = [...text.matchAll(/```sh\n([\s\S]*?)```|`([^`\n]+)`(?!, a new file)/g)];
  const words = code.flatMap(([, block, inline]) => (block ?? inline ?? '').split(/\s+/));
  return words.filter((word) => /^(?!\/|\.)[\w.-]+(\/[\w.-]+)+$/.test(word));
}
const madeBy = (page: string): Set<string> =>
  new Set(
    [...readFileSync(path.join(root, page), 'utf8').matchAll(/`([^`\n]+)`, a new file/g)].map(
      ([, made = '']) => made,
    ),
  );

describe('a recipe', () => {
  it.each(recipes)('%s names only existing files', (page) => {
    const made = madeBy(page);
    const missing = placesOf(page).filter((place) => !made.has(place) && !existsSync(path.join(root, place)));
    expect(missing).toEqual([]);
  });

  it('names at least one file', () => {
    expect(recipes.length).toBeGreaterThan(6);
    expect(recipes.flatMap(placesOf).length).toBeGreaterThan(60);
  });
});

describe('the documentation', () => {
  const index = readFileSync(path.join(root, 'docs/README.md'), 'utf8');
  it('has every page in its index', () => {
    const listed = [...index.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => path.join('docs', link));
    const unlisted = pages.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
    expect(unlisted.filter((page) => !listed.includes(page))).toEqual([]);
  });

  it('describes every variable that the code reads', () => {
    const told = readFileSync(path.join(root, 'docs/reference/configuration.md'), 'utf8');
    const code = globSync(['{processes,standalone,gateway}/src/**/*.ts'], { cwd: root });
    const names = code.flatMap((file) => [
      ...(readFileSync(path.join(root, file), 'utf8').match(
        /\b(VAULT|KAFKA|EVENTSTOREDB|OTEL)_[A-Z_]*[A-Z]\b/g,
      ) ?? []),
    ]);
    expect(new Set(names).size).toBeGreaterThan(20);
    const isTold = (name: string) =>
      told.includes(`\`${name}\``) || name.startsWith('VAULT_ROOT_KEY_TRANSIT_');
    expect([...new Set(names)].filter((name) => !isTold(name))).toEqual([]);
  });
});

import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { consoleFiles, type ConsoleFile } from '../index.ts';

const files = await consoleFiles();
const page = files.get('index.html');
const html = page?.body.toString() ?? '';
const gzipped = (named: readonly (readonly [string, ConsoleFile])[]): number =>
  named.reduce((sum, [, { body }]) => sum + gzipSync(body).length, 0);

it('is one page that names its script and style by the hash of their content, and holds neither', () => {
  const named = [...html.matchAll(/(?:src|href)="(assets\/[^"]+)"/g)].map((match) => match[1] ?? '');
  expect(named).toEqual([
    expect.stringMatching(/^assets\/main-[A-Z0-9]{8}\.css$/),
    expect.stringMatching(/^assets\/main-[A-Z0-9]{8}\.js$/),
  ]);
  for (const name of named) expect(files.has(name)).toBe(true);
  expect(html).not.toMatch(/<style|style=|<script(?![^>]* src=)| on\w+=/);
});

it('asks no other host for anything', () => {
  for (const [name, { body }] of files) {
    const hosts = body.toString().match(/(?:src|href)="https?:|import\(?\s*["']https?:|url\(["']?https?:/g);
    expect([name, hosts]).toEqual([name, null]);
  }
});

it('loads at most 300 kB for its first page, charts included and the editor not', () => {
  const isEditor = ([, { body }]: readonly [string, ConsoleFile]) => body.includes('cm-content');
  const first = [...files].filter((each) => !isEditor(each));
  expect(gzipped(first)).toBeGreaterThan(50_000);
  expect(gzipped(first)).toBeLessThanOrEqual(300_000);
});

it('gives each file its type and a tag of its content', () => {
  for (const [name, { type, etag, body }] of files) {
    expect(type).toBe(
      { html: 'text/html', js: 'text/javascript', css: 'text/css' }[name.split('.').at(-1) ?? ''] +
        '; charset=utf-8',
    );
    expect(etag).toMatch(/^"[\w-]{22}"$/);
    expect(body.length).toBeGreaterThan(0);
  }
  expect(new Set([...files.values()].map(({ etag }) => etag)).size).toBe(files.size);
});

import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keptFiles, type Recipe } from '../src/index.ts';

let repository: string;
let times: number;
beforeEach(async () => {
  times = 0;
  repository = await mkdtemp(path.join(os.tmpdir(), 'vault-kept-'));
  await mkdir(path.join(repository, 'src'));
  await mkdir(path.join(repository, 'node_modules/@some/one/lib'), { recursive: true });
  await writeFile(path.join(repository, 'src/a.ts'), 'a');
  await writeFile(path.join(repository, 'pnpm-lock.yaml'), 'lock');
  const manifest = { name: '@some/one', version: '1.2.3', license: 'MIT', scripts: {} };
  await writeFile(path.join(repository, 'node_modules/@some/one/package.json'), JSON.stringify(manifest));
});
afterEach(() => rm(repository, { recursive: true, force: true }));

function recipe(inputs = ['src/a.ts', 'node_modules/@some/one/lib/index.js']): Recipe {
  const inRepository = (file: string) => path.join(repository, file);
  return {
    name: 'thing',
    repository,
    sources: [inRepository('src')],
    make() {
      times += 1;
      const files = new Map([['folder/out.js', Buffer.from(`made ${times}`)]]);
      return Promise.resolve({ files, inputs: inputs.map(inRepository) });
    },
  };
}
const made = async (from = recipe()) => (await keptFiles(from)).get('folder/out.js')?.toString();

describe('kept files', () => {
  it('are made once, also when the included packages do not exist any more', async () => {
    expect(await made()).toBe('made 1');
    await rm(path.join(repository, 'node_modules'), { recursive: true });
    expect(await made()).toBe('made 1');
  });

  it('are made again when a source or the lock file has changed', async () => {
    await made();
    await writeFile(path.join(repository, 'src/a.ts'), 'b');
    expect(await made()).toBe('made 2');
    await writeFile(path.join(repository, 'pnpm-lock.yaml'), 'another');
    expect(await made()).toBe('made 3');
  });

  it('name the included packages', async () => {
    await made();
    const [kept = ''] = await readdir(path.join(repository, '.cache/thing'));
    const file = path.join(repository, '.cache/thing', kept, 'packages.json');
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual([
      { name: '@some/one', version: '1.2.3', license: 'MIT' },
    ]);
  });

  it('are refused when they include a file whose change would not be detected', async () => {
    await expect(made(recipe(['src/a.ts', 'other/b.ts']))).rejects.toThrow('other/b.ts goes into thing');
  });

  it('are made one after another in a process, as its one esbuild needs', async () => {
    const steps: string[] = [];
    const slow = (name: string): Recipe => ({
      ...recipe(),
      name,
      async make() {
        steps.push(`${name} begins`);
        await new Promise(setImmediate);
        steps.push(`${name} ends`);
        return { files: new Map([['a', Buffer.from(name)]]), inputs: [] };
      },
    });
    await Promise.all(['one', 'two'].map((name) => keptFiles(slow(name))));
    expect(steps.filter((_, index) => index % 2 === 0).map((step) => step.split(' ')[0])).toEqual(
      steps.filter((_, index) => index % 2 === 1).map((step) => step.split(' ')[0]),
    );
  });

  it('are kept in memory when they cannot be written', async () => {
    await writeFile(path.join(repository, '.cache'), 'a file');
    expect(await made()).toBe('made 1');
    expect(existsSync(path.join(repository, '.cache/thing'))).toBe(false);
    expect(await made()).toBe('made 2');
  });
});

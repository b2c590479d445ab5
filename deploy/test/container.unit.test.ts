import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { read, readYaml, root } from './files.ts';

const dockerfile = read('deploy/container/Dockerfile');
const manifest = JSON.parse(read('package.json')) as {
  version: string;
  description: string;
  packageManager: string;
  dependencies: { node: string };
};
const argument = (name: string) => new RegExp(`^ARG ${name}=(\\S+)$`, 'm').exec(dockerfile)?.[1];

describe('the image', () => {
  it('has the versions of Node and pnpm that the workspace pins', () => {
    expect(argument('NODE_VERSION')).toBe(manifest.dependencies.node);
    expect(`pnpm@${argument('PNPM_VERSION')}`).toBe(manifest.packageManager);
  });

  it('starts from exact tags, without root, with a program that exists', () => {
    const bases = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map((match) => match[1]);
    expect(new Set(bases)).toEqual(new Set(['node:${NODE_VERSION}-bookworm-slim', 'services']));
    const users = [...dockerfile.matchAll(/^USER (.+)$/gm)].map((match) => match[1]);
    expect(users.at(-1)).toBe('1000:1000');
    const commands = [...dockerfile.matchAll(/^CMD \["(.+)"\]$/gm)].map((match) => match[1] ?? '');
    expect(commands).toHaveLength(2);
    for (const command of commands) expect(existsSync(path.join(root, command)), command).toBe(true);
  });

  it('starts Node with the flags that every other start has', () => {
    const flags = JSON.parse(read('scripts/node-flags.json')) as string[];
    const entry = JSON.parse(/^ENTRYPOINT (\[.+\])$/m.exec(dockerfile)?.[1] ?? '[]') as string[];
    expect(entry).toEqual(['tini', '--', 'node', ...flags, 'deploy/container/start.mjs']);
  });

  it('has the labels of OCI that say what it is, and of which commit and base', () => {
    const labels = Object.fromEntries(
      [...dockerfile.matchAll(/org\.opencontainers\.image\.(\S+?)="(.*)"/g)].map(
        ([, name = '', value = '']) => [name, value],
      ),
    );
    expect(labels).toEqual({
      title: 'token-vault',
      description: manifest.description,
      version: manifest.version,
      revision: '${REVISION}',
      'base.name': 'docker.io/library/node:${NODE_VERSION}-bookworm-slim',
    });
  });

  it('is given every package that the lock file speaks of, and no tests, keys or data', () => {
    const lock = readYaml<{ importers: object }>(read('pnpm-lock.yaml')).find((it) => 'importers' in it);
    const lines = read('deploy/container/Dockerfile.dockerignore').split('\n');
    expect(lines.find((line) => line !== '' && !line.startsWith('#'))).toBe('**');
    const given = lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    const missing = Object.keys(lock?.importers ?? {})
      .map((folder) => path.join(folder, 'package.json'))
      .filter((file) => !given.some((name) => file === name || file.startsWith(`${name}/`)));
    expect(missing).toEqual([]);
    expect(lines).toEqual(
      expect.arrayContaining(['**/node_modules', '**/test/*.ts', '**/.vault', '**/*.key']),
    );
  });
});

describe('the start of a container', () => {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'vault-container-'));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  const program = path.join(directory, 'program.mjs');
  writeFileSync(
    program,
    'const { VAULT_ROOT_KEY, OTHER, file } = process.env; console.log(JSON.stringify({ VAULT_ROOT_KEY, OTHER, file, args: process.argv.slice(1) }));',
  );
  const start = (secrets: string, args: string[]) =>
    spawnSync(process.execPath, [path.join(root, 'deploy/container/start.mjs'), ...args], {
      env: { VAULT_SECRETS_DIR: secrets, VAULT_ROOT_KEY: 'inherited', OTHER: 'kept' },
      encoding: 'utf8',
    });

  it('turns secret files into settings, and hands on its arguments', () => {
    writeFileSync(path.join(directory, 'VAULT_ROOT_KEY'), 'from the file\n');
    writeFileSync(path.join(directory, 'file'), 'not a setting');
    const { stdout } = start(directory, [program, 'a', '--b']);
    expect(JSON.parse(stdout)).toEqual({
      VAULT_ROOT_KEY: 'from the file',
      OTHER: 'kept',
      args: [program, 'a', '--b'],
    });
  });

  it('needs no secrets, and names the error in one line, without a value', () => {
    expect(JSON.parse(start(path.join(directory, 'absent'), [program]).stdout)).toMatchObject({
      VAULT_ROOT_KEY: 'inherited',
    });
    expect(start(directory, [])).toMatchObject({
      status: 1,
      stderr: 'usage: start.mjs <program> [arguments]\n',
    });
    const unreadable = start(program, [program]);
    expect(unreadable).toMatchObject({
      status: 1,
      stderr: `cannot read the secrets in ${program}: ENOTDIR\n`,
    });
  });
});

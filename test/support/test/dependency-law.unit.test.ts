import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const repository = path.resolve(import.meta.dirname, '../../..');
const cruiser = path.join(repository, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');

const packages = [
  'contracts',
  ...[
    'access',
    'audit',
    'batching',
    'crypto',
    'egress',
    'event-store',
    'expressions',
    'embedded-postgres',
    'invocation-feed',
    'operations',
    'postgres',
    'observability',
    'process',
    'read-models',
    'authentication',
    'idempotency',
    'http',
    'tokens',
    'kept-files',
  ].map((name) => `libs/${name}`),
  ...[
    'command-service',
    'query-service',
    'projectors',
    'reactor-runner',
    'proxy',
    'deploy',
    'processes',
    'gateway',
    'console',
    'standalone',
    'test/support',
  ],
];

/** Each file breaks only the rule beside it. */
const violations: [file: string, code: string, rule: string][] = [
  ['contracts/src/a.ts', `import '@token-vault/batching';`, 'law-contracts'],
  ['contracts/src/b.ts', `import 'pg';`, 'npm-contracts'],
  ['libs/batching/src/a.ts', `import '@token-vault/contracts';`, 'law-libs-batching'],
  ['libs/batching/src/b.ts', `import 'pg';`, 'npm-libs-batching'],
  ['libs/kept-files/src/a.ts', `import '@token-vault/contracts';`, 'law-libs-kept-files'],
  ['libs/kept-files/src/b.ts', `import 'pg';`, 'npm-libs-kept-files'],
  ['libs/postgres/src/a.ts', `import '@token-vault/contracts';`, 'law-libs-postgres'],
  ['libs/postgres/src/b.ts', `import 'knex';`, 'npm-libs-postgres'],
  ['libs/event-store/src/a.ts', `import '@token-vault/crypto';`, 'law-libs-event-store'],
  ['libs/event-store/src/b.ts', `import 'knex';`, 'npm-libs-event-store'],
  ['libs/crypto/src/a.ts', `import '@token-vault/event-store';`, 'law-libs-crypto'],
  ['libs/crypto/src/b.ts', `import 'express';`, 'npm-libs-crypto'],
  ['libs/expressions/src/a.ts', `import '@token-vault/crypto';`, 'law-libs-expressions'],
  ['libs/expressions/src/b.ts', `import 'pg';`, 'npm-libs-expressions'],
  ['libs/access/src/a.ts', `import type {} from '@token-vault/http';`, 'law-libs-access'],
  ['libs/access/src/b.ts', `import 'pg';`, 'npm-libs-access'],
  ['libs/tokens/src/a.ts', `import '@token-vault/access';`, 'law-libs-tokens'],
  ['libs/tokens/src/b.ts', `import 'pg';`, 'npm-libs-tokens'],
  ['libs/egress/src/a.ts', `import '@token-vault/contracts';`, 'law-libs-egress'],
  ['libs/egress/src/b.ts', `import 'express';`, 'npm-libs-egress'],
  ['libs/operations/src/a.ts', `import type {} from '@token-vault/http';`, 'law-libs-operations'],
  ['libs/operations/src/b.ts', `import 'express';`, 'npm-libs-operations'],
  ['libs/observability/src/a.ts', `import '@token-vault/http';`, 'law-libs-observability'],
  ['libs/observability/src/b.ts', `import 'pg';`, 'npm-libs-observability'],
  ['libs/process/src/a.ts', `import '@token-vault/http';`, 'law-libs-process'],
  ['libs/process/src/b.ts', `import 'pg';`, 'npm-libs-process'],
  ['libs/read-models/src/a.ts', `import '@token-vault/http';`, 'law-libs-read-models'],
  ['libs/read-models/src/b.ts', `import 'express';`, 'npm-libs-read-models'],
  ['libs/authentication/src/a.ts', `import '@token-vault/http';`, 'law-libs-authentication'],
  ['libs/authentication/src/b.ts', `import 'express';`, 'npm-libs-authentication'],
  ['libs/idempotency/src/a.ts', `import '@token-vault/http';`, 'law-libs-idempotency'],
  ['libs/idempotency/src/b.ts', `import 'express';`, 'npm-libs-idempotency'],
  ['libs/http/src/a.ts', `import '@token-vault/command-service';`, 'law-libs-http'],
  ['libs/http/src/b.ts', `import 'pg';`, 'npm-libs-http'],
  ['libs/audit/src/a.ts', `import '@token-vault/projectors';`, 'law-libs-audit'],
  ['libs/audit/src/b.ts', `import 'express';`, 'npm-libs-audit'],
  ['libs/invocation-feed/src/a.ts', `import '@token-vault/crypto';`, 'law-libs-invocation-feed'],
  ['libs/embedded-postgres/src/a.ts', `import '@token-vault/contracts';`, 'law-libs-embedded-postgres'],
  ['libs/embedded-postgres/src/b.ts', `import 'express';`, 'npm-libs-embedded-postgres'],
  ['command-service/src/a.ts', `import '@token-vault/query-service';`, 'law-command-service'],
  ['query-service/src/a.ts', `import '@token-vault/command-service';`, 'law-query-service'],
  ['projectors/src/a.ts', `import '@token-vault/crypto';`, 'law-projectors'],
  ['projectors/src/b.ts', `import type {} from '@token-vault/expressions';`, 'law-projectors'],
  ['projectors/src/c.ts', `import 'express';`, 'npm-projectors'],
  ['reactor-runner/src/a.ts', `export * from '@token-vault/projectors';`, 'law-reactor-runner'],
  ['proxy/src/a.ts', `import '@token-vault/command-service';`, 'law-proxy'],
  ['reactor-runner/src/b.ts', `import 'isolated-vm';`, 'isolates-only-in-the-sandbox'],
  ['command-service/src/b.ts', `import 'isolated-vm';`, 'isolates-only-in-the-sandbox'],
  ['command-service/src/c.ts', `import '../../contracts/src/index.ts';`, 'no-path-into-contracts'],
  ['test/deep.ts', `import '../libs/crypto/src/index.ts';`, 'no-path-into-libs-crypto'],
  ['command-service/src/d.ts', `import '@token-vault/contracts/src/index.ts';`, 'not-resolvable'],
  ['command-service/src/e.ts', `import './absent.ts';`, 'not-resolvable'],
  ['query-service/src/b.ts', `import './c.ts';`, 'no-cycle'],
  ['processes/src/a.ts', `import '@token-vault/standalone';`, 'law-processes'],
  ['deploy/a.ts', `import '@token-vault/command-service';`, 'law-deploy'],
  ['gateway/src/a.ts', `import '@token-vault/command-service';`, 'law-gateway'],
  ['console/a.ts', `import '@token-vault/http';`, 'law-console'],
  ['standalone/src/a.ts', `import './a.unit.test.ts';`, 'production-does-not-import-tests'],
];

const lawful: [file: string, code: string][] = [
  // The second half of the cycle. A cycle is reported once.
  ['query-service/src/c.ts', `import type {} from './b.ts';`],
  ['libs/crypto/src/ok.ts', `import '@token-vault/batching'; import 'pg'; import 'node:crypto';`],
  [
    'libs/crypto/test/ok.unit.test.ts',
    `import '@token-vault/test-support'; import '../src/ok.ts'; import 'express';`,
  ],
  ['projectors/src/ok.ts', `import '@token-vault/event-store'; import 'knex';`],
  ['reactor-runner/src/sandbox/ok.ts', `import 'isolated-vm';`],
  ['query-service/src/ok.ts', `import '@token-vault/crypto'; import '@token-vault/batching';`],
  ['standalone/src/ok.ts', `import '@token-vault/command-service'; import '@token-vault/reactor-runner';`],
  ['processes/src/ok.ts', `import '@token-vault/command-service'; import '@token-vault/projectors';`],
  ['standalone/src/a.unit.test.ts', ''],
  ['test/ok.ts', `import '@token-vault/standalone'; import '@token-vault/test-support';`],
];

let workspace: string;
let found: Map<string, Set<string>>;

beforeAll(async () => {
  workspace = await realpath(await mkdtemp(path.join(tmpdir(), 'law-')));
  await cp(path.join(repository, '.dependency-cruiser.cjs'), path.join(workspace, '.dependency-cruiser.cjs'));
  for (const folder of packages) await plantPackage(folder);
  for (const name of ['pg', 'knex', 'express', 'isolated-vm']) {
    await plant(
      `node_modules/${name}/package.json`,
      JSON.stringify({ name, version: '1.0.0', main: 'index.js' }),
    );
    await plant(`node_modules/${name}/index.js`, '');
  }
  for (const [file, code] of [...violations, ...lawful]) await plant(file, code);
  found = await cruise();
});

afterAll(() => rm(workspace, { recursive: true, force: true }));

async function plant(file: string, content: string): Promise<void> {
  const target = path.join(workspace, file);
  await mkdir(path.dirname(target), { recursive: true });
  await writeFile(target, content);
}

async function plantPackage(folder: string): Promise<void> {
  const name = folder === 'test/support' ? 'test-support' : path.basename(folder);
  const manifest = {
    name: `@token-vault/${name}`,
    version: '1.0.0',
    type: 'module',
    exports: { '.': './src/index.ts' },
  };
  await plant(`${folder}/package.json`, JSON.stringify(manifest));
  await plant(`${folder}/src/index.ts`, '');
  const links = path.join(workspace, 'node_modules/@token-vault');
  await mkdir(links, { recursive: true });
  await symlink(path.join(workspace, folder), path.join(links, name));
}

/** The names of the rules that each file breaks. */
async function cruise(): Promise<Map<string, Set<string>>> {
  const args = [cruiser, '--config', '.dependency-cruiser.cjs', '--output-type', 'json', '.'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: workspace, maxBuffer: 1e8 });
  const { summary } = JSON.parse(stdout) as {
    summary: { violations: { from: string; rule: { name: string } }[] };
  };
  const broken = new Map<string, Set<string>>();
  for (const { from, rule } of summary.violations) {
    broken.set(from, (broken.get(from) ?? new Set()).add(rule.name));
  }
  return broken;
}

describe('the dependency law', () => {
  it.each(violations)('finds the violation in %s: %s', (file, _code, rule) => {
    expect([...(found.get(file) ?? [])]).toEqual([rule]);
  });

  it('accepts all other imports', () => {
    const planted = new Set(violations.map(([file]) => file));
    expect([...found.keys()].filter((file) => !planted.has(file))).toEqual([]);
  });

  it('has a rule for every package of the workspace, and each rule a violation here', async () => {
    const config = (await import(path.join(repository, '.dependency-cruiser.cjs'))) as {
      default: { forbidden: { name: string }[] };
    };
    const rules = config.default.forbidden.map(({ name }) => name);
    const seen = new Set(violations.map(([, , rule]) => rule));
    // Standalone may import all packages, and the rule against imports by path exists once for each package.
    const unseen = rules.filter(
      (name) => !seen.has(name) && !name.startsWith('no-path-into-') && name !== 'law-standalone',
    );
    expect(unseen).toEqual([]);
    const libs = (await readdir(path.join(repository, 'libs'))).map((name) => `libs-${name}`);
    expect(libs.filter((name) => !rules.includes(`law-${name}`))).toEqual([]);
    const declared = await readFile(path.join(repository, 'pnpm-workspace.yaml'), 'utf8');
    for (const folder of packages.filter((name) => !name.startsWith('libs/')))
      expect(declared).toContain(`- ${folder}\n`);
  });
});

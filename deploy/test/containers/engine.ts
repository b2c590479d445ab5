import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePorts } from '@token-vault/process';
import { testDirectory } from '@token-vault/test-support';
import { root } from '../files.ts';
import { dockerSeccomp } from './seccomp.ts';

const run = promisify(execFile);
const programs = ['podman', 'buildah', 'runc', 'mmdebstrap', 'iptables'];

/** Why no container can be built and run here; undefined when it can. */
export function whyNoContainers(): string | undefined {
  if (process.getuid?.() !== 0) return 'not root';
  const missing = programs.filter((name) => spawnSync('which', [name]).status !== 0);
  if (missing.length > 0) return `not installed: ${missing.join(', ')}`;
  if (!readFileSync('/proc/filesystems', 'utf8').includes('\toverlay\n')) return 'the kernel has no overlay';
  return undefined;
}

interface Ran {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Podman with a store of its own, which commands reach by the name `docker`. */
export interface Engine {
  /** For commands that call `docker`. They publish port 8080 of the host as the port that `takePort` returned last. */
  readonly environment: NodeJS.ProcessEnv;
  /** A free port of this machine. Call it just before a container is started: another process may take a free port at any time. */
  readonly takePort: () => Promise<number>;
  /** @throws Error with what the command said, when it fails */
  readonly docker: (...args: string[]) => Promise<string>;
  /** As `docker`, for a command that may fail. */
  readonly attempt: (...args: string[]) => Promise<Ran>;
  /** A command line of the documentation, in bash. @throws Error as `docker` */
  readonly shell: (line: string) => Promise<string>;
  /** Stops all containers and removes all that the engine made. */
  readonly remove: () => Promise<void>;
}

/** Without cgroups of systemd, with limits that an ordinary machine allows, and with the restrictions of Docker. */
const settings = (seccompFile: string) => `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
seccomp_profile = "${seccompFile}"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
`;

/** `docker`, as a script: podman, with the port in `portFile` in place of 8080. Files of a build get a fixed time. */
const shim = (store: string, runRoot: string, portFile: string): string => `#!/bin/bash
args=()
for arg; do [ "$arg" = 8080:8080 ] && arg=$(< '${portFile}'):8080; args+=("$arg"); done
[ "$1" = build ] && args=(build --format docker --timestamp 1700000000 --layers "\${args[@]:1}")
exec podman --root '${store}/root' --runroot '${runRoot}' --storage-driver overlay "\${args[@]}"
`;

/** Makes an engine, whose store is CONTAINER_STORE, or a new one that is removed at the end. */
export async function openEngine(): Promise<Engine> {
  const kept = process.env['CONTAINER_STORE'];
  const store = kept ?? (await mkdtemp(path.join(testDirectory, 'vault-containers-')));
  // Podman takes 50 characters at most, which a path below TEST_DIRECTORY may exceed.
  const runRoot = kept === undefined ? await mkdtemp(path.join(os.tmpdir(), 'vault-podman-')) : `${kept}/run`;
  const bin = path.join(store, 'bin');
  await mkdir(bin, { recursive: true });
  const seccompFile = path.join(store, 'seccomp.json');
  await writeFile(seccompFile, JSON.stringify(dockerSeccomp()));
  await writeFile(path.join(store, 'containers.conf'), settings(seccompFile));
  const portFile = path.join(store, 'port');
  await writeFile(path.join(bin, 'docker'), shim(store, runRoot, portFile));
  chmodSync(path.join(bin, 'docker'), 0o755);
  const environment = {
    PATH: `${bin}:${process.env['PATH'] ?? ''}`,
    HOME: process.env['HOME'] ?? '/root',
    CONTAINERS_CONF: path.join(store, 'containers.conf'),
    BUILDAH_ISOLATION: 'chroot',
    TMPDIR: os.tmpdir(),
  };
  const attemptTo = (program: string, args: readonly string[]): Promise<Ran> =>
    run(program, args, { env: environment, cwd: root, maxBuffer: 64 << 20 }).then(
      ({ stdout, stderr }) => ({ status: 0, stdout, stderr }),
      (error: { code: number; stdout: string; stderr: string }) => ({ ...error, status: error.code }),
    );
  const must = async (program: string, args: readonly string[]): Promise<string> => {
    const { status, stdout, stderr } = await attemptTo(program, args);
    const said = stdout.slice(-2000) + stderr.slice(-4000);
    if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${status}\n${said}`);
    return stdout.trim();
  };
  const attempt = (...args: string[]) => attemptTo('docker', args);
  return {
    environment,
    async takePort() {
      const [port = 0] = await freePorts(['0.0.0.0']);
      await writeFile(portFile, String(port));
      return port;
    },
    docker: (...args) => must('docker', args),
    attempt,
    shell: (line) => must('bash', ['-c', line]),
    async remove() {
      await attempt('rm', '--all', '--force', '--time', '0');
      await attempt('volume', 'prune', '--force');
      await attempt('network', 'rm', '--force', 'vault');
      if (kept !== undefined) return;
      await attempt('rmi', '--all', '--force');
      for (const made of [store, runRoot]) await rm(made, { recursive: true, force: true });
    },
  };
}

/** Paths that the slim images of Debian leave out. */
const left = ['man', 'doc', 'locale', 'info', 'groff'].map((name) => `path-exclude=/usr/share/${name}/*`);
/** `usr-is-merged` from the beginning: `usrmerge` alone brings all of Perl, which Debian's images do not have. */
const mergedUsr = '/usr/share/mmdebstrap/hooks/merged-usr';

/**
 * Makes the image that the Dockerfile starts from, because no registry of images can be reached: Debian's packages, the Node that npm pins,
 * and the npm of this machine. It has the name of the one that others pull.
 */
export async function makeBaseImage({ docker, attempt }: Engine, name: string): Promise<void> {
  if ((await attempt('image', 'exists', name)).status === 0) return;
  const directory = await mkdtemp(path.join(testDirectory, 'vault-base-'));
  const tar = path.join(directory, 'base.tar');
  const npm = (await run('npm', ['root', '--global'])).stdout.trim();
  const trusted = certificates();
  const hooks = [
    `copy-in '${path.join(root, 'node_modules/node/bin/node')}' /usr/local/bin`,
    'mkdir -p "$1/usr/local/lib/node_modules"',
    `copy-in '${path.join(npm, 'npm')}' /usr/local/lib/node_modules`,
    'ln -s ../lib/node_modules/npm/bin/npm-cli.js "$1/usr/local/bin/npm"',
    ...trusted.map((file) => `upload '${file}' ${certificatesInside}`),
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*',
  ];
  try {
    const options = [
      '--quiet',
      '--mode=root',
      '--variant=essential',
      '--include=apt,debian-archive-keyring',
      `--hook-dir=${mergedUsr}`,
      ...[...left, 'force-unsafe-io'].map((option) => `--dpkgopt=${option}`),
      ...hooks.map((hook) => `--customize-hook=${hook}`),
    ];
    const env = { ...process.env, TMPDIR: testDirectory };
    await run('mmdebstrap', [...options, 'bookworm', tar, 'http://deb.debian.org/debian'], { env });
    const changes = trusted.flatMap(() => ['--change', `ENV NODE_EXTRA_CA_CERTS=${certificatesInside}`]);
    await docker('import', ...changes, tar, name);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const certificatesInside = '/usr/local/lib/certificates.pem';

/** The certificate authorities that this machine trusts besides those of Node, as behind the proxy of a company. */
function certificates(): string[] {
  const file = process.env['NODE_EXTRA_CA_CERTS'];
  return file === undefined || !existsSync(file) ? [] : [file];
}

import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createDataDirectory, removeDataDirectory, waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import flags from '../../scripts/node-flags.json' with { type: 'json' };
import { read, root } from './files.ts';

const unitFile = 'deploy/systemd/token-vault.service';
const unit = read(unitFile);
/** All values of a setting of the unit, in their order. */
const valuesOf = (name: string): string[] =>
  [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map((match) => match[1] ?? '');
const secondsOf = (name: string) => Number(valuesOf(name)[0]);

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
const why = hasSystemd ? '' : ' (skipped: systemd-analyze is not installed)';
/** Of 10; a unit without any protection has 9.6. */
const highestExposure = 4;

describe.skipIf(!hasSystemd)(`systemd-analyze on the unit${why}`, () => {
  let directory: string;
  let file: string;
  beforeAll(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'vault-systemd-'));
    file = path.join(directory, 'token-vault.service');
    // `verify` looks for the program and the documentation, which are in this checkout here.
    await writeFile(file, unit.replaceAll('/opt/token-vault', root));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));
  const analyse = (...args: string[]) => spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' });

  it('passes systemd-analyze without a message', () => {
    const { status, stderr } = analyse('verify', '--man=no');
    const about = stderr.split('\n').filter((line) => line.includes('token-vault'));
    expect({ status, about }).toEqual({ status: 0, about: [] });
  });

  it('is refused by it with a setting that does not exist', async () => {
    const wrong = path.join(directory, 'wrong.service');
    await writeFile(wrong, '[Service]\nExecStart=/bin/true\nProtectSytem=strict\n');
    const { stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', wrong], { encoding: 'utf8' });
    expect(stderr).toContain('ProtectSytem');
  });

  it(`finds an exposure of ${highestExposure} of 10 at most`, () => {
    const { stdout, stderr } = analyse('security', '--offline=yes', '--no-pager');
    const [line = stderr, exposure] = /Overall exposure level for [^:]*: ([\d.]+)/.exec(stdout) ?? [];
    console.log(line);
    expect(Number(exposure)).toBeLessThanOrEqual(highestExposure);
  });
});

describe('the unit', () => {
  it('starts the standalone vault with the flags of npm start', () => {
    const [command = ''] = valuesOf('ExecStart');
    const [, ...rest] = command.split(' ');
    expect(rest).toEqual([...flags, 'deploy/container/start.mjs', 'standalone/src/main.ts']);
  });

  it('gives more time to stop than the vault takes for its requests', () => {
    const [, most] = /stopWithinMs = (\d+)_000/.exec(read('libs/process/src/process-life.ts')) ?? [];
    expect(Number(most)).toBeGreaterThan(0);
    expect(secondsOf('TimeoutStopSec')).toBeGreaterThan(Number(most));
    // Postgres must not get SIGTERM beside the vault, whose last requests need it.
    expect(valuesOf('KillMode')).toEqual(['mixed']);
    expect(valuesOf('Restart')).toEqual(['on-failure']);
    expect(secondsOf('StartLimitIntervalSec')).toBeGreaterThan(
      secondsOf('StartLimitBurst') * (secondsOf('RestartSec') + secondsOf('TimeoutStartSec')),
    );
  });

  it('leaves the sandbox of reactors the rights that its walls need', () => {
    const covering = ['ProtectKernelTunables', 'ProtectKernelLogs', 'ProtectHostname', 'ProtectProc'];
    for (const name of [...covering, 'RestrictNamespaces', 'RestrictSUIDSGID', 'MemoryDenyWriteExecute'])
      expect(valuesOf(name), name).toEqual([]);
    // The sandbox sets the limit to 1, which a service with a limit of 0 may not.
    expect(valuesOf('LimitCORE')).toEqual(['1']);
  });

  it('has no secret in its environment', () => {
    expect(valuesOf('LoadCredential')).toEqual(['VAULT_ROOT_KEY:/etc/token-vault/VAULT_ROOT_KEY']);
    expect(valuesOf('Environment').join(' ')).not.toContain('ROOT_KEY');
  });
});

/** Starts the command of the unit with its environment and nothing else, as systemd does. */
function startUnit(credentials: string, dataDir: string, port: string): ChildProcess {
  const environment = valuesOf('Environment').map((line) => {
    const at = line.indexOf('=');
    return [line.slice(0, at), line.slice(at + 1)] as const;
  });
  const { PATH = '' } = process.env;
  const [command = ''] = valuesOf('ExecStart');
  const [program = '', ...args] = command.replaceAll('/opt/token-vault', root).split(' ');
  return spawn(program, args, {
    cwd: root,
    env: {
      PATH,
      ...Object.fromEntries(environment),
      VAULT_SECRETS_DIR: credentials,
      VAULT_DATA_DIR: dataDir,
      // As from /etc/token-vault/settings.
      VAULT_PORT: port,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

describe('the command of the unit', () => {
  let dataDir: string;
  let credentials: string;
  let child: ChildProcess | undefined;
  beforeAll(async () => {
    dataDir = await createDataDirectory();
    credentials = path.join(dataDir, 'credentials');
    await mkdir(credentials, { mode: 0o700 });
    const key = randomBytes(32).toString('base64');
    await writeFile(path.join(credentials, 'VAULT_ROOT_KEY'), `${key}\n`, { mode: 0o400 });
  });
  afterAll(async () => {
    child?.kill('SIGKILL');
    await removeDataDirectory(dataDir);
  });

  it('starts with the root key of the credential, keeps a token, ends with 0 at SIGTERM, and starts again', async () => {
    const data = path.join(dataDir, 'state');
    let id = '';
    for (const start of ['first', 'second']) {
      child = startUnit(credentials, data, '0');
      let output = '';
      for (const stream of [child.stdout, child.stderr])
        stream?.on('data', (chunk: Buffer) => (output += chunk.toString()));
      const ended = new Promise((resolve) => child?.once('exit', resolve));
      await waitUntil(() => output.includes('vault ready at') || child?.exitCode !== null, {
        timeoutMs: 120_000,
        what: 'the vault of the unit',
      });
      const [, url = ''] = /vault ready at (\S+)/.exec(output) ?? [];
      expect(url, output).not.toBe('');
      const { management_key: key } = JSON.parse(
        await readFile(path.join(data, 'credentials.json'), 'utf8'),
      ) as { management_key: string };
      const api = async (route: string, by: string, body?: object) =>
        (await (
          await fetch(url + route, {
            method: body ? 'POST' : 'GET',
            headers: { 'SVC-API-KEY': by, 'Content-Type': 'application/json' },
            ...(body && { body: JSON.stringify(body) }),
          })
        ).json()) as Record<string, string>;
      const permissions = ['token:create', 'token:read'];
      const { key: backend = '' } = await api('/applications', key, {
        name: 'a',
        type: 'private',
        permissions,
      });
      if (start === 'first')
        id = (await api('/tokens', backend, { type: 'token', data: 'kept' }))['id'] ?? '';
      expect(await api(`/tokens/${id}`, backend)).toMatchObject({ id, type: 'token' });
      child.kill('SIGTERM');
      expect(await ended, output).toBe(0);
    }
  });
});

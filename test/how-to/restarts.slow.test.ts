import { startTransitDouble, type TransitDouble } from '../doubles/transit/index.ts';
import {
  createDataDirectory,
  removeDataDirectory,
  spawnStandalone,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createReader, type Reader } from './reader.ts';

/** A page that restarts the vault needs to know its port. */
async function freePort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return String(port);
}

describe('a reader who restarts the vault as the page says', () => {
  let dataDir: string;
  let reader: Reader;
  beforeEach(async () => {
    dataDir = await createDataDirectory();
    reader = await createReader();
  });
  afterEach(async () => {
    await reader.leave();
    await removeDataDirectory(dataDir);
  });

  /** The vault of the first lines runs in another terminal, until the page tells the reader to stop it. */
  async function follow(page: string, stopAt: string, environment: Readonly<Record<string, string>> = {}) {
    const vault = await startStandaloneProcess({ dataDir, env: { VAULT_PORT: await freePort() } });
    const stop = `kill -INT ${vault.pid}; while kill -0 ${vault.pid} 2> "$SAFE/stopped"; do sleep 0.1; done`;
    const followed = await reader.follow(
      page,
      { VAULT_DATA_DIR: dataDir, VAULT_URL: vault.url, ...environment },
      { [stopAt]: stop },
    );
    const { code, stderr } = followed;
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    return followed;
  }

  const revealed = (stdout: string) => stdout.match(/"data":"4242424242424242"/g)?.length;

  async function refusedStart(env: Readonly<Record<string, string>> = {}): Promise<string> {
    const started = spawnStandalone({ dataDir, env });
    expect(await started.exited).toMatchObject({ code: 1 });
    return started.errors();
  }

  const rootKeyFiles = async () => (await readdir(dataDir)).filter((name) => name.startsWith('root.key'));

  it('rotate-keys: the card opens after each step, the former keys are set aside and open nothing', async () => {
    const { stdout, stderr, variable } = await follow('rotate-keys', 'From the file to the environment');
    expect(revealed(stdout)).toBe(4);
    expect(stderr).toContain('is not needed any more: move it away from the data');
    const kept = await readdir(`${variable('SAFE')}/retired-keys`);
    expect(kept).toContain('root.key.before-the-environment');
    expect(kept.filter((name) => name.startsWith('root.key.retired-'))).toHaveLength(1);
    expect(await rootKeyFiles()).toEqual([]);
    expect(await refusedStart({ VAULT_ROOT_KEY: variable('NEW_ROOT_KEY') })).toContain('wrong root key');
    expect(await refusedStart()).toMatch(/^vault: .+\n$/);
  });

  it('keep-the-root-key-in-transit: the card opens with the key in transit alone', async () => {
    const double: TransitDouble = await startTransitDouble();
    try {
      double.keys.create('token-vault');
      const { stdout } = await follow('keep-the-root-key-in-transit', 'From a file, or VAULT_ROOT_KEY', {
        VAULT_ROOT_KEY_TRANSIT_URL: double.url,
        VAULT_ROOT_KEY_TRANSIT_TOKEN: double.token,
      });
      expect(stdout).toMatch(/^root key transit:token-vault:v1:\d+ is in use/m);
      expect(revealed(stdout)).toBe(1);
      expect(await rootKeyFiles()).toEqual([]);
    } finally {
      await double.down();
    }
  });

  it('run-distributed: separate processes serve the data of the single process', async () => {
    const { stdout, variable } = await follow('run-distributed', 'Start the stack');
    expect(revealed(stdout)).toBe(1);
    expect(stdout).toContain('query-service');
    const log = await readFile(path.join(variable('SAFE'), 'stack.log'), 'utf8');
    expect(log).toMatch(/^vault ready at /m);
  });
});

import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { waitUntil } from '@token-vault/test-support';
import { read, readYaml } from '../files.ts';
import type { Engine } from './engine.ts';
import { startStores } from './stores.ts';

interface Service {
  readonly image: string;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly secrets: readonly string[];
  readonly read_only: boolean;
  readonly tmpfs: readonly string[];
  readonly cap_drop: readonly string[];
  readonly security_opt: readonly string[];
  readonly stop_grace_period?: string;
  readonly deploy?: { readonly resources: { readonly limits: { readonly memory: string } } };
}

const { services } = readYaml<{ services: Record<string, Service> }>(read('deploy/compose.yaml'))[0]!;

function serviceOf(name: string): Service {
  const service = services[name];
  if (!service) throw new Error(`compose.yaml has no ${name}`);
  return service;
}

export const servicesImage = serviceOf('migrate').image;
/** The services of the vault that run on. */
export const running = ['command-service', 'query-service', 'projectors', 'reactor-runner', 'proxy'] as const;

/** The time in seconds that `docker compose stop` gives a service. */
export const graceOf = (name: string): string =>
  /^(\d+)s$/.exec(serviceOf(name).stop_grace_period ?? '')?.[1] ?? '';

/** The services of compose.yaml, each in a container with its command, environment, secrets and restrictions. */
export interface Composed {
  readonly withoutKafka: string | undefined;
  /** Runs a command service to its end, with `command` in place of its own. @throws Error with what it said */
  run(name: 'migrate' | 'cli', command?: readonly string[]): Promise<string>;
  /** Starts all services that run on, and waits until they are ready. */
  start(): Promise<void>;
  untilReady(name: string): Promise<void>;
  /** The address in the network of the containers. */
  addressOf(name: string): Promise<string>;
  close(): Promise<void>;
}

const network = 'vault';

export async function createComposed(engine: Engine, directory: string): Promise<Composed> {
  const { docker, attempt } = engine;
  await docker('network', 'create', network);
  // The address of this machine in the network exists when the first container is there.
  await docker(
    'run',
    '--detach',
    '--network',
    network,
    '--name',
    'first',
    '--entrypoint',
    'sleep',
    servicesImage,
    'infinity',
  );
  const gateway = await docker(
    'inspect',
    '--format',
    `{{(index .NetworkSettings.Networks "${network}").Gateway}}`,
    'first',
  );
  const stores = await startStores(gateway);
  const secrets = path.join(directory, 'secrets');
  await mkdir(secrets);
  const values = { DATABASE_URL: stores.databaseUrl, VAULT_ROOT_KEY: randomBytes(32).toString('base64') };
  for (const [name, value] of Object.entries(values))
    await writeFile(path.join(secrets, name), value, { mode: 0o444 });

  function optionsOf(name: string, command?: readonly string[]): string[] {
    const service = serviceOf(name);
    const changed = stores.withoutKafka === undefined ? {} : { INVOCATION_FEED: 'direct' };
    const memory = service.deploy?.resources.limits.memory;
    return [
      ...['--network', network, '--name', name],
      ...['postgres', 'eventstore', 'kafka'].flatMap((host) => ['--add-host', `${host}:${gateway}`]),
      ...(service.read_only ? ['--read-only'] : []),
      ...service.tmpfs.flatMap((entry) => ['--tmpfs', entry]),
      ...service.cap_drop.flatMap((capability) => ['--cap-drop', capability]),
      ...service.security_opt.flatMap((option) => ['--security-opt', option]),
      ...Object.entries({ ...service.environment, ...changed }).flatMap((pair) => ['--env', pair.join('=')]),
      ...service.secrets.flatMap((it) => ['--volume', `${path.join(secrets, it)}:/run/secrets/${it}:ro`]),
      ...(memory === undefined ? [] : ['--memory', memory]),
      service.image,
      ...(command ?? service.command),
    ];
  }

  async function untilReady(name: string): Promise<void> {
    const isReady = async () => (await attempt('healthcheck', 'run', name)).status === 0;
    await waitUntil(isReady, { timeoutMs: 120_000, what: `the health check of ${name}` }).catch(
      async (cause: unknown) => {
        throw new Error(`${name} is not ready: ${await docker('logs', name)}`, { cause });
      },
    );
  }

  return {
    withoutKafka: stores.withoutKafka,
    run: (name, command) => docker('run', '--rm', ...optionsOf(name, command)),
    async start() {
      for (const name of running) await docker('run', '--detach', ...optionsOf(name));
      await Promise.all(running.map(untilReady));
    },
    untilReady,
    addressOf: (name) =>
      docker('inspect', '--format', `{{(index .NetworkSettings.Networks "${network}").IPAddress}}`, name),
    close: () => stores.close(),
  };
}

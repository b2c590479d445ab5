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
  readonly volumes?: readonly string[];
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
  /** Starts all services that run on, in place of containers of an earlier attempt, and waits until they are ready. */
  start(): Promise<void>;
  /** Waits until the health checks of these services succeed. @throws Error with the last output of the check and the log of the container */
  untilReady(...names: readonly string[]): Promise<void>;
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
      ...(service.volumes ?? []).flatMap((volume) => ['--volume', volume]),
      ...(memory === undefined ? [] : ['--memory', memory]),
      service.image,
      ...(command ?? service.command),
    ];
  }

  async function runAnew(how: '--rm' | '--detach', name: string, command?: readonly string[]) {
    await attempt('rm', '--force', '--time', '0', name);
    return docker('run', how, ...optionsOf(name, command));
  }

  async function untilOneIsReady(name: string): Promise<void> {
    let said = '';
    const isReady = async () => {
      const { status, stdout, stderr } = await attempt('healthcheck', 'run', name);
      said = stdout + stderr;
      return status === 0;
    };
    // A check starts three programs, which take the time of processors from the services: so it pauses, and checks one service at a time.
    const waiting = { timeoutMs: 300_000, pauseMs: 1_000, what: `the health check of ${name}` };
    await waitUntil(isReady, waiting).catch(async (cause: unknown) => {
      const logs = await attempt('logs', name);
      throw new Error(`${name} is not ready: ${said}\n${logs.stdout}${logs.stderr}`, { cause });
    });
  }

  async function untilReady(...names: readonly string[]): Promise<void> {
    for (const name of names) await untilOneIsReady(name);
  }

  return {
    withoutKafka: stores.withoutKafka,
    run: (name, command) => runAnew('--rm', name, command),
    async start() {
      for (const name of running) await runAnew('--detach', name);
      await untilReady(...running);
    },
    untilReady,
    addressOf: (name) =>
      docker('inspect', '--format', `{{(index .NetworkSettings.Networks "${network}").IPAddress}}`, name),
    close: () => stores.close(),
  };
}

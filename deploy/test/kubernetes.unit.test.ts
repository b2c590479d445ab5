import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { Deployment } from 'kubernetes-models/apps/v1';
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2';
import { Ingress, NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { Job } from 'kubernetes-models/batch/v1';
import { ConfigMap, Namespace, Service, ServiceAccount } from 'kubernetes-models/v1';
import { describe, expect, it } from 'vitest';
import { places } from '../nginx/places.ts';
import { foreignSettings, knownSettings, read, readYaml, root } from './files.ts';

type Model = new (data: never) => { validate(): void };
const models: Readonly<Record<string, Model>> = {
  Deployment,
  HorizontalPodAutoscaler,
  Ingress,
  Job,
  NetworkPolicy,
  PodDisruptionBudget,
  ConfigMap,
  Namespace,
  Service,
  ServiceAccount,
};

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

/** @throws Error that names the field, as the API server would */
function validate(manifest: Manifest): void {
  const model = models[manifest.kind];
  if (!model) throw new Error(`no schema for ${manifest.kind}`);
  const instance = new model(manifest as never);
  expect((instance as unknown as Manifest).apiVersion).toBe(manifest.apiVersion);
  instance.validate();
}

const folder = 'deploy/kubernetes';
const filesOf = (directory: string) =>
  readdirSync(path.join(root, folder, directory))
    .filter((name) => name.endsWith('.yaml') && name !== 'kustomization.yaml')
    .map((name) => path.join(folder, directory, name));
const base = filesOf('base').flatMap((file) => readYaml<Manifest>(read(file)));
const example = filesOf('overlays/example').flatMap((file) => readYaml<Manifest>(read(file)));
const named = ({ kind, metadata }: Manifest) => [`${kind} ${metadata.name}`] as const;
const withNames = (manifests: readonly Manifest[]) =>
  manifests.map((manifest) => [named(manifest)[0], manifest] as const);

interface Probe {
  readonly httpGet?: { readonly path: string; readonly port: string };
}
interface Workload extends Manifest {
  readonly spec: {
    readonly replicas: number;
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly automountServiceAccountToken: boolean;
        readonly terminationGracePeriodSeconds: number;
        readonly securityContext: { readonly runAsNonRoot: boolean; readonly seccompProfile: object };
        readonly volumes: readonly {
          readonly name: string;
          readonly projected?: {
            readonly sources: readonly { secret: { items: { key: string; path: string }[] } }[];
          };
        }[];
        readonly containers: readonly {
          readonly image: string;
          readonly args?: readonly string[];
          readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
          readonly startupProbe?: Probe;
          readonly readinessProbe?: Probe;
          readonly livenessProbe?: Probe;
          readonly env?: readonly { readonly name: string; readonly value?: string }[];
          readonly envFrom?: readonly object[];
          readonly resources: { readonly requests: object; readonly limits: { readonly memory: string } };
          readonly securityContext: object;
        }[];
      };
    };
  };
}
const workloads = base.filter((manifest): manifest is Workload => manifest.kind === 'Deployment');

it('the proxy, which runs code of tenants too, has the resources of the reactor-runner', () => {
  const resourcesOf = (name: string) =>
    workloads.find(({ metadata }) => metadata.name === name)?.spec.template.spec.containers[0]?.resources;
  expect(resourcesOf('proxy')).toBeDefined();
  expect(resourcesOf('proxy')).toEqual(resourcesOf('reactor-runner'));
});

interface Kustomization {
  readonly resources: readonly string[];
  readonly configMapGenerator: readonly {
    name: string;
    literals?: readonly string[];
    files?: readonly string[];
  }[];
  readonly images: readonly { name: string; newTag: string }[];
}
const kustomizations = ['base', 'overlays/example'].map((directory) => {
  const file = path.join(folder, directory, 'kustomization.yaml');
  return [directory, readYaml<Kustomization>(read(file))[0]!] as const;
});

describe('the manifests for Kubernetes', () => {
  it.each(withNames([...base, ...example]))('%s is valid by the schema of its kind', (_name, manifest) => {
    validate(manifest);
  });

  it('are distinguished from invalid ones', () => {
    const [first] = workloads;
    expect(() => validate({ ...first!, spec: { replicas: 'two' } } as never)).toThrow(/replicas/);
  });

  it.each(kustomizations)(
    '%s names only existing files and settings, and images by exact tags',
    (directory, it_) => {
      for (const name of [...it_.resources, ...it_.configMapGenerator.flatMap(({ files = [] }) => files)])
        expect(existsSync(path.join(root, folder, directory, name)), name).toBe(true);
      for (const { newTag } of it_.images) expect(newTag).toMatch(/^\d+\.\d+\.\d+/);
      const known = knownSettings();
      for (const literal of it_.configMapGenerator.flatMap(({ literals = [] }) => literals)) {
        const [name = ''] = literal.split('=');
        expect(known.has(name), name).toBe(true);
        expect(name).not.toMatch(/ROOT_KEY|DATABASE_URL|PASSWORD/);
      }
    },
  );
});

it('the services believe the headers of the gateway, which is the only proxy before them', () => {
  const [, { configMapGenerator }] = kustomizations[0]!;
  const settings = configMapGenerator.find(({ name }) => name === 'token-vault')?.literals;
  expect(settings).toContain('VAULT_TRUST_PROXY=1');
  const served = workloads.filter(({ metadata }) => metadata.name !== 'gateway');
  expect(served.map(({ metadata }) => metadata.name)).toEqual(
    expect.arrayContaining(['command-service', 'query-service', 'proxy']),
  );
  for (const { spec } of served)
    expect(spec.template.spec.containers[0]?.envFrom).toContainEqual({
      configMapRef: { name: 'token-vault' },
    });
});

describe.each(withNames(workloads))('%s', (_name, workload) => {
  const workloadOf = workload as Workload;
  const { spec } = workloadOf.spec.template;
  const [container] = spec.containers;

  it('has all three probes, on a port it has', () => {
    const ports = container!.ports.map(({ name }) => name);
    const { startupProbe, readinessProbe, livenessProbe } = container!;
    for (const probe of [startupProbe, readinessProbe, livenessProbe]) {
      expect(probe?.httpGet?.path).toMatch(/^\/health\/(live|ready)$/);
      expect(ports).toContain(probe?.httpGet?.port);
    }
    // An unavailable store must not cause a restart of every replica.
    expect(livenessProbe?.httpGet?.path).toBe('/health/live');
  });

  it('has no unneeded rights: no root, no capability, no writable root, no API token', () => {
    expect(spec.automountServiceAccountToken).toBe(false);
    expect(spec.securityContext).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(container!.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(container!.resources.requests).toHaveProperty('memory');
    expect(container!.resources.limits.memory).toMatch(/^\d+[MG]i$/);
  });

  it('survives the loss of a node: two or more, a budget, its labels its own', () => {
    expect(workloadOf.spec.replicas).toBeGreaterThanOrEqual(2);
    const labels = workloadOf.spec.template.metadata.labels;
    expect(labels).toMatchObject(workloadOf.spec.selector.matchLabels);
    const budget = base.find(
      ({ kind, metadata }) => kind === 'PodDisruptionBudget' && metadata.name === workload.metadata.name,
    );
    expect(budget).toMatchObject({ spec: { maxUnavailable: 1, selector: workloadOf.spec.selector } });
  });

  it('runs a program that exists, with secrets as files and settings that exist', () => {
    const secrets = spec.volumes
      .flatMap(({ projected }) => projected?.sources ?? [])
      .flatMap(({ secret }) => secret.items);
    if (container!.image !== 'token-vault-services') return;
    expect(existsSync(path.join(root, container!.args?.[0] ?? 'missing'))).toBe(true);
    const known = knownSettings();
    for (const { key, path: file } of secrets) {
      expect(file).toBe(key);
      expect(known.has(key), key).toBe(true);
    }
    for (const { name } of container!.env ?? [])
      expect(known.has(name) || foreignSettings.has(name), name).toBe(true);
    const hasRootKey = secrets.some(({ key }) => key === 'VAULT_ROOT_KEY');
    expect(hasRootKey).toBe(workload.metadata.name !== 'projectors');
  });
});

describe('the allowed connections', () => {
  const policies = base.filter(({ kind }) => kind === 'NetworkPolicy');

  it('are none unless a policy names them', () => {
    const deny = policies.find(({ metadata }) => metadata.name === 'default-deny');
    expect(deny).toMatchObject({ spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } });
  });

  it('name only workloads that exist', () => {
    const names = new Set(
      base.filter(({ kind }) => ['Deployment', 'Job'].includes(kind)).map(({ metadata }) => metadata.name),
    );
    const text = JSON.stringify(policies);
    const meant = [...text.matchAll(/"app\.kubernetes\.io\/name":"([\w-]+)"/g)].map(
      (match) => match[1] ?? '',
    );
    const listed = [...text.matchAll(/"values":\[([^\]]+)\]/g)].flatMap(
      (match) => JSON.parse(`[${match[1]}]`) as string[],
    );
    expect(meant.length + listed.length).toBeGreaterThan(10);
    for (const name of [...meant, ...listed]) expect(names).toContain(name);
  });

  it('lets the gateway find its services', () => {
    const { commandServers, queryServers, proxyServers } = places['kubernetes/base/nginx.conf']!;
    for (const server of [...commandServers, ...queryServers, ...proxyServers]) {
      const [host = '', port] = server.split(':');
      const [name, namespace] = host.split('.');
      const service = base.find(({ kind, metadata }) => kind === 'Service' && metadata.name === name);
      expect(service).toMatchObject({ spec: { clusterIP: 'None', ports: [{ port: Number(port) }] } });
      expect(base.find(({ kind }) => kind === 'Namespace')?.metadata.name).toBe(namespace);
    }
  });
});

const kubectl = spawnSync('kubectl', ['kustomize', '--help']).status === 0;

describe.skipIf(!kubectl)('kubectl kustomize (skipped where kubectl is not installed)', () => {
  it.each(['base', 'overlays/example'])('makes valid manifests of %s', (directory) => {
    const made = spawnSync('kubectl', ['kustomize', path.join(root, folder, directory)], {
      encoding: 'utf8',
    });
    expect(made.stderr).toBe('');
    const manifests = readYaml<Manifest>(made.stdout);
    expect(manifests.length).toBeGreaterThan(base.length);
    for (const manifest of manifests) validate(manifest);
    expect(made.stdout).not.toMatch(/image: token-vault-services$/m);
  });
});

import path from 'node:path';
import { gatewayConfiguration, type GatewayOptions } from './configuration.ts';

const container = {
  internalListen: '8081',
  pidFile: '/tmp/nginx.pid',
  temporaryDirectory: '/tmp',
  accessLog: '/dev/stdout',
  errorLog: 'stderr',
} as const;

/** The addresses of the services on your own machines; an example to be changed in `places.ts`. */
const machines = {
  internalListen: '127.0.0.1:8081',
  commandServers: ['10.0.0.11:8081', '10.0.0.12:8081'],
  queryServers: ['10.0.0.11:8082', '10.0.0.12:8082'],
  proxyServers: ['10.0.0.11:8083', '10.0.0.12:8083'],
  pidFile: '/run/nginx.pid',
  temporaryDirectory: '/var/lib/nginx',
  accessLog: '/var/log/nginx/vault.log',
  errorLog: '/var/log/nginx/error.log',
} as const;

/** The committed configurations, by their file in `deploy/`. */
export const places: Readonly<Record<string, GatewayOptions>> = {
  'nginx/compose.conf': {
    ...container,
    listen: '8080',
    commandServers: ['command-service:8080'],
    queryServers: ['query-service:8080'],
    proxyServers: ['proxy:8080'],
    // The DNS server of Docker, the same in every network.
    resolver: '127.0.0.11',
  },
  'kubernetes/base/nginx.conf': {
    ...container,
    listen: '8080',
    // The resolver of nginx does not use search domains, so the names are complete. An overlay for another namespace changes them.
    commandServers: ['command-service.token-vault.svc.cluster.local:8080'],
    queryServers: ['query-service.token-vault.svc.cluster.local:8080'],
    proxyServers: ['proxy.token-vault.svc.cluster.local:8080'],
    resolver: 'kube-dns.kube-system.svc.cluster.local',
  },
  'nginx/tls-example.conf': {
    ...machines,
    listen: '443',
    tls: {
      certificate: '/etc/nginx/tls/vault.crt',
      key: '/etc/nginx/tls/vault.key',
      serverName: 'vault.example.com',
      http2: true,
    },
    requestsAtOncePerAddress: 256,
  },
};

/** The generated files, by their path relative to the root of the repository. */
export function generatedFiles(): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(places).map(([file, options]) => [
      path.join('deploy', file),
      gatewayConfiguration(options),
    ]),
  );
}

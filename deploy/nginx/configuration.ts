import { locations, routeCodes } from './locations.ts';
import { maps } from './maps.ts';
import { errorPages } from './problems.ts';
import { forwardedHeaders } from './routes.ts';
import { type GatewayTls, namedServer, otherNames, tlsSettings } from './tls.ts';
import { indented } from './text.ts';

/** The differences between two installations of the gateway. Addresses are `host:port`, `port` or `unix:<path>`. */
export interface GatewayOptions {
  readonly listen: string;
  /** For probes and for the exporter of nginx's own metrics; do not publish it. */
  readonly internalListen: string;
  readonly commandServers: readonly string[];
  readonly queryServers: readonly string[];
  readonly proxyServers: readonly string[];
  /** A DNS server that nginx asks again while it runs, because replicas come and go. Needs nginx 1.27.3 or newer. */
  readonly resolver?: string;
  readonly tls?: GatewayTls;
  /** Load balancers in front of this gateway (addresses or networks) whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies?: readonly string[];
  /** Maximum number of concurrent requests from one address. Only where the gateway sees the addresses of its callers. */
  readonly requestsAtOncePerAddress?: number;
  /** Maximum number of concurrent requests: each may hold a body of 1 MiB and the buffers of an answer, 1.4 MiB together. */
  readonly requestsAtOnce?: number;
  /** Shows `/health/live` and `/health/ready` of the query service without a key, as the standalone vault does. */
  readonly exposesHealth?: boolean;
  readonly pidFile: string;
  /** Must be writable. No part of a request or an answer is written there: the buffers hold all of it. */
  readonly temporaryDirectory: string;
  readonly accessLog: string;
  readonly errorLog: string;
  readonly workerProcesses?: number;
}

/** rules.md §3, the same limit as in libs/http; a test compares the two. */
export const bodyLimit = '1m';

/** For the 512 MiB that the examples give to the gateway. */
const defaultRequestsAtOnce = 300;

function upstream(name: string, servers: readonly string[], resolver: string | undefined): string[] {
  // `max_fails`: passive health checks. Three failures within 5 s remove a server for 5 s. 503 of a service does not count as a failure,
  // because a caller can cause it by a SVC-POSITION beyond the head.
  const suffix = `max_fails=3 fail_timeout=5s${resolver === undefined ? '' : ' resolve'}`;
  return [
    `upstream ${name} {`,
    `  zone ${name} 128k;`,
    '  least_conn;',
    ...servers.map((server) => `  server ${server} ${suffix};`),
    '  keepalive 64;',
    '  keepalive_requests 10000;',
    '  # Shorter than the 65 s of the services, so that no request meets a closing connection.',
    '  keepalive_timeout 60s;',
    '}',
    '',
  ];
}

const logFormat = [
  '# Logs names of operations instead of paths, and no query, header or body: no data of tokens or metadata.',
  'log_format vault escape=json',
  `  '{"time":"$time_iso8601","trace_id":"$vault_trace_id","operation":"$vault_operation",'`,
  `  '"method":"$request_method","status":$status,"duration_s":$request_time,"bytes_in":$request_length,'`,
  `  '"bytes_out":$bytes_sent,"address":"$remote_addr","protocol":"$server_protocol","tls":"$ssl_protocol",'`,
  `  '"upstream":"$upstream_addr","upstream_status":"$upstream_status","upstream_s":"$upstream_response_time"}';`,
];

function realAddress(proxies: readonly string[]): string[] {
  if (proxies.length === 0) return [];
  return [
    ...proxies.map((proxy) => `set_real_ip_from ${proxy};`),
    'real_ip_header X-Forwarded-For;',
    'real_ip_recursive on;',
    '',
  ];
}

function requestSettings(options: GatewayOptions): string[] {
  return [
    'server_tokens off;',
    'default_type application/octet-stream;',
    'etag off;',
    'reset_timedout_connection on;',
    'recursive_error_pages on;',
    '',
    '# A request is read completely, into memory and never into a file, before it is sent to a service.',
    `client_max_body_size ${bodyLimit};`,
    'client_body_buffer_size 1040k;',
    'client_body_in_single_buffer on;',
    'large_client_header_buffers 4 16k;',
    'client_header_timeout 10s;',
    'client_body_timeout 15s;',
    'send_timeout 30s;',
    'keepalive_timeout 65s;',
    'keepalive_requests 10000;',
    ...['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${options.temporaryDirectory}/${name};`,
    ),
    '',
    ...realAddress(options.trustedProxies ?? []),
    'limit_conn_zone $vault_all_requests zone=vault_requests:1m;',
    ...(options.requestsAtOncePerAddress === undefined
      ? []
      : ['limit_conn_zone $binary_remote_addr zone=vault_addresses:10m;']),
    'limit_conn_status 429;',
    '',
  ];
}

function proxySettings(): string[] {
  return [
    'proxy_http_version 1.1;',
    '# Only headers that a service reads are passed on: no other cookie, forged forwarding header, hop-by-hop header or trace context.',
    'proxy_pass_request_headers off;',
    'proxy_set_header Host $host;',
    'proxy_set_header Connection "";',
    ...forwardedHeaders.map(
      (name) => `proxy_set_header ${name} $http_${name.toLowerCase().replaceAll('-', '_')};`,
    ),
    'proxy_set_header Cookie $vault_cookie;',
    'proxy_set_header SVC-TRACE-ID $vault_trace_id;',
    'proxy_set_header X-Forwarded-Host $http_host;',
    'proxy_set_header X-Forwarded-For $remote_addr;',
    'proxy_set_header X-Forwarded-Proto $scheme;',
    'proxy_hide_header X-Powered-By;',
    '# Reactor code can set headers of an answer. These must not control the gateway.',
    'proxy_ignore_headers X-Accel-Redirect X-Accel-Expires X-Accel-Limit-Rate X-Accel-Buffering X-Accel-Charset;',
    'proxy_connect_timeout 2s;',
    'proxy_send_timeout 15s;',
    '# A synchronous reactor takes up to 10 s, its read models up to 2 s more; the rest is a reserve for a loaded machine.',
    'proxy_read_timeout 30s;',
    '# An answer may contain plaintext, so it is buffered in memory, never in a file.',
    'proxy_max_temp_file_size 0;',
    'proxy_buffers 16 16k;',
    '# The 16 KB of headers that reactor code may set, and the headers of the vault.',
    'proxy_buffer_size 20k;',
    'proxy_busy_buffers_size 64k;',
    'proxy_intercept_errors off;',
  ];
}

function publicServer(options: GatewayOptions): string[] {
  const { listen, tls, requestsAtOncePerAddress } = options;
  const alwaysHeaders = tls ? ['add_header Strict-Transport-Security "max-age=63072000" always;'] : [];
  const body = [
    tls ? `listen ${listen} ssl;` : `listen ${listen} default_server;`,
    ...(tls ? namedServer(tls) : []),
    `limit_conn vault_requests ${options.requestsAtOnce ?? defaultRequestsAtOnce};`,
    ...(requestsAtOncePerAddress === undefined
      ? []
      : [`limit_conn vault_addresses ${requestsAtOncePerAddress};`]),
    ...alwaysHeaders,
    ...Object.entries(routeCodes).map(([route, code]) => `error_page ${code} = @${route};`),
    ...errorPages,
    '',
    ...locations(alwaysHeaders),
  ];
  return [...(tls ? otherNames(listen) : []), 'server {', ...indented(body), '}', ''];
}

const internalServer = (listen: string): string[] => [
  '# For probes and metrics of the gateway itself: do not publish it. The gateway is ready even if the services are not: while',
  '# they are unavailable, the gateway answers with 502, 503 or 504.',
  'server {',
  `  listen ${listen};`,
  '  access_log off;',
  '  location = /health/live {',
  '    default_type application/json;',
  `    return 200 '{"status":"live"}';`,
  '  }',
  '  location = /health/ready {',
  '    default_type application/json;',
  `    return 200 '{"status":"ready"}';`,
  '  }',
  '  location = /status {',
  '    stub_status;',
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16'].map((net) => `    allow ${net};`),
  '    deny all;',
  '  }',
  '  location / {',
  '    return 404;',
  '  }',
  '}',
];

/** The whole configuration of nginx for one installation, derived from the operations table. */
export function gatewayConfiguration(options: GatewayOptions): string {
  const { resolver } = options;
  const http = [
    ...logFormat,
    `access_log ${options.accessLog} vault;`,
    '',
    ...requestSettings(options),
    ...(resolver === undefined
      ? []
      : [`resolver ${resolver} valid=5s ipv6=off;`, 'resolver_timeout 2s;', '']),
    ...upstream('vault_command', options.commandServers, resolver),
    ...upstream('vault_query', options.queryServers, resolver),
    ...upstream('vault_proxy', options.proxyServers, resolver),
    ...maps(options.exposesHealth ?? false),
    ...proxySettings(),
    '',
    ...(options.tls ? tlsSettings() : []),
    ...publicServer(options),
    ...internalServer(options.internalListen),
  ];
  return [...processSettings(options), 'http {', ...indented(http), '}', ''].join('\n');
}

const processSettings = (options: GatewayOptions): readonly string[] => [
  '# Generated from the operations table by deploy/nginx/generate.ts: do not edit.',
  '',
  `worker_processes ${options.workerProcesses ?? 'auto'};`,
  'worker_rlimit_nofile 16384;',
  '# A reload or a stop lets requests under way end.',
  'worker_shutdown_timeout 35s;',
  `pid ${options.pidFile};`,
  '# From `error` down nginx quotes the request line, with its query. The access log has the status of every try.',
  `error_log ${options.errorLog} crit;`,
  '',
  'events {',
  '  worker_connections 4096;',
  '}',
  '',
];

import { maps } from './maps.ts';
import { errorPages, misdirected, problemLocations } from './problems.ts';
import { forwardedHeaders, type Route } from './routes.ts';

export interface GatewayTls {
  readonly certificate: string;
  readonly key: string;
  readonly serverName: string;
  /** Needs nginx 1.25.1 or newer. */
  readonly http2: boolean;
}

/** What differs between two places where the gateway runs. Addresses are `host:port`, `port` or `unix:<path>`. */
export interface GatewayOptions {
  readonly listen: string;
  /** For probes and for the exporter of nginx's own metrics; not to be published. */
  readonly internalListen: string;
  readonly commandServers: readonly string[];
  readonly queryServers: readonly string[];
  /** A DNS server that is asked again while nginx runs, as replicas come and go. Needs nginx 1.27.3 or newer. */
  readonly resolver?: string;
  readonly tls?: GatewayTls;
  /** Load balancers before this gateway (addresses or networks) whose `X-Forwarded-For` says who calls. */
  readonly trustedProxies?: readonly string[];
  /** Most requests of one address at the same time. Only where the gateway sees the addresses of its callers. */
  readonly requestsAtOncePerAddress?: number;
  /** Most requests at the same time: each may hold a body of 1 MiB and the buffers of an answer, 1.4 MiB together. */
  readonly requestsAtOnce?: number;
  /** `/health/live` and `/health/ready` of the query service for anybody, as the standalone vault shows them. */
  readonly exposesHealth?: boolean;
  readonly pidFile: string;
  /** Must be writable. Nothing of a request or an answer is written there: the buffers hold all of it. */
  readonly temporaryDirectory: string;
  readonly accessLog: string;
  readonly errorLog: string;
  readonly workerProcesses?: number;
}

/** rules.md §3, as libs/service-kit reads it; a test holds the two together. */
export const bodyLimit = '1m';

/** For the 512 MiB that the examples give the gateway. */
const defaultRequestsAtOnce = 300;

const routeCodes: Readonly<Record<Route, number>> = { query: 471, command: 472, command_once: 473 };

function upstream(name: string, servers: readonly string[], resolver: string | undefined): string[] {
  // `max_fails`: passive health. Three failures within 5 s take a server out for 5 s; 503 of a service is not one of them,
  // since a caller can bring it about (SVC-POSITION of the future).
  const suffix = `max_fails=3 fail_timeout=5s${resolver === undefined ? '' : ' resolve'}`;
  return [
    `upstream ${name} {`,
    `  zone ${name} 128k;`,
    '  least_conn;',
    ...servers.map((server) => `  server ${server} ${suffix};`),
    '  keepalive 64;',
    '  keepalive_requests 10000;',
    '  # Shorter than the 65 s of the services, so that no request meets a connection that is just being closed.',
    '  keepalive_timeout 60s;',
    '}',
    '',
  ];
}

const logFormat = [
  '# Names of operations instead of paths, and no query, header or body: nothing of a token, nothing of metadata.',
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
    '# A request is read whole, into memory and never into a file, before a service sees it.',
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
    'limit_conn_zone $vault_everyone zone=vault_requests:1m;',
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
    '# Only what a service reads goes on: no cookie, no forged forwarding header, nothing hop-by-hop, no trace context.',
    'proxy_pass_request_headers off;',
    'proxy_set_header Host $host;',
    'proxy_set_header Connection "";',
    ...forwardedHeaders.map(
      (name) => `proxy_set_header ${name} $http_${name.toLowerCase().replaceAll('-', '_')};`,
    ),
    'proxy_set_header SVC-TRACE-ID $vault_trace_id;',
    'proxy_set_header X-Forwarded-For $remote_addr;',
    'proxy_set_header X-Forwarded-Proto $scheme;',
    'proxy_hide_header X-Powered-By;',
    '# No answer gives orders to this gateway: reactor code has a say in headers.',
    'proxy_ignore_headers X-Accel-Redirect X-Accel-Expires X-Accel-Limit-Rate X-Accel-Buffering X-Accel-Charset;',
    'proxy_connect_timeout 2s;',
    'proxy_send_timeout 15s;',
    '# A synchronous reactor takes up to 10 s, its read models up to 2 s more; the rest is for a machine under load.',
    'proxy_read_timeout 30s;',
    '# An answer may hold plaintext: it waits in memory for its reader, never in a file.',
    'proxy_max_temp_file_size 0;',
    'proxy_buffers 16 16k;',
    '# The 16 KB of headers that reactor code may set, and ours.',
    'proxy_buffer_size 20k;',
    'proxy_busy_buffers_size 64k;',
    'proxy_intercept_errors off;',
  ];
}

/** In `location /`, `return` chooses one of these; only there and so is `if` of nginx safe. */
function locations(everywhere: readonly string[]): string[] {
  return [
    'location / {',
    '  # Before its body is read: without a key it would only take memory.',
    '  if ($vault_key = missing) {',
    '    return 401;',
    '  }',
    ...Object.entries(routeCodes).flatMap(([route, code]) => [
      `  if ($vault_route = ${route}) {`,
      `    return ${code};`,
      '  }',
    ]),
    '  if ($vault_allow != "") {',
    '    return 405;',
    '  }',
    '  return 404;',
    '}',
    '',
    '# Reads. A GET that failed is sent to one other server; a POST (search) only if none of it was sent.',
    'location @query {',
    '  proxy_pass http://vault_query;',
    '  proxy_next_upstream error timeout;',
    '  proxy_next_upstream_tries 2;',
    '  proxy_next_upstream_timeout 5s;',
    '}',
    '',
    '# POST and PATCH: to another server only if none of it was sent (nginx never repeats these by itself).',
    'location @command {',
    '  proxy_pass http://vault_command;',
    '  proxy_next_upstream error timeout;',
    '  proxy_next_upstream_tries 2;',
    '  proxy_next_upstream_timeout 5s;',
    '}',
    '',
    '# PUT and DELETE, which nginx would repeat: to one server, once.',
    'location @command_once {',
    '  proxy_pass http://vault_command;',
    '  proxy_next_upstream off;',
    '}',
    '',
    ...problemLocations(everywhere),
  ];
}

/** For all servers: a handshake begins before the name of the server is known. */
function tlsSettings(): string[] {
  return [
    'ssl_protocols TLSv1.2 TLSv1.3;',
    '# Forward secrecy and authenticated encryption only; of TLS 1.3 all are.',
    'ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305;',
    'ssl_prefer_server_ciphers off;',
    'ssl_session_cache shared:vault_tls:10m;',
    'ssl_session_timeout 1d;',
    'ssl_session_tickets off;',
    '# Replayed early data could repeat a write.',
    'ssl_early_data off;',
    '',
  ];
}

const namedServer = (tls: GatewayTls): string[] => [
  `server_name ${tls.serverName};`,
  ...(tls.http2 ? ['http2 on;'] : []),
  `ssl_certificate ${tls.certificate};`,
  `ssl_certificate_key ${tls.key};`,
  '',
];

/** A handshake for any other name is refused, so that nobody reaches the vault by an address or a stray name. */
const otherNames = (listen: string): string[] => [
  'server {',
  `  listen ${listen} ssl default_server;`,
  '  server_name _;',
  '  ssl_reject_handshake on;',
  '  # A handshake for the right name, and then a request for another host.',
  '  location / {',
  '    return 421;',
  '  }',
  ...indented([...misdirected.errorPages, ...misdirected.locations]),
  '}',
  '',
];

function publicServer(options: GatewayOptions): string[] {
  const { listen, tls, requestsAtOncePerAddress } = options;
  const everywhere = tls ? ['add_header Strict-Transport-Security "max-age=63072000" always;'] : [];
  const body = [
    tls ? `listen ${listen} ssl;` : `listen ${listen} default_server;`,
    ...(tls ? namedServer(tls) : []),
    `limit_conn vault_requests ${options.requestsAtOnce ?? defaultRequestsAtOnce};`,
    ...(requestsAtOncePerAddress === undefined
      ? []
      : [`limit_conn vault_addresses ${requestsAtOncePerAddress};`]),
    ...everywhere,
    ...Object.entries(routeCodes).map(([route, code]) => `error_page ${code} = @${route};`),
    ...errorPages,
    '',
    ...locations(everywhere),
  ];
  return [...(tls ? otherNames(listen) : []), 'server {', ...indented(body), '}', ''];
}

const internalServer = (listen: string): string[] => [
  '# For probes and metrics of the gateway itself: not to be published. Its readiness is not that of the services: while',
  '# they are away it is the one that says so.',
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

const indented = (lines: readonly string[]): string[] =>
  lines.map((line) => (line === '' ? '' : `  ${line}`));

/** The whole configuration of nginx for one place, derived from the operations table. */
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
    ...maps(options.exposesHealth ?? false),
    ...proxySettings(),
    '',
    ...(options.tls ? tlsSettings() : []),
    ...publicServer(options),
    ...internalServer(options.internalListen),
  ];
  return [
    '# Generated from the operations table by deploy/nginx/generate.ts: change that, not this.',
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
    'http {',
    ...indented(http),
    '}',
    '',
  ].join('\n');
}

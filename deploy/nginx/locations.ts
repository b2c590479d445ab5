import { problemLocations } from './problems.ts';
import type { Route } from './routes.ts';

/** The status by which `location /` selects the location of a route. */
export const routeCodes: Readonly<Record<Route, number>> = {
  query: 471,
  command: 472,
  command_once: 473,
  proxy: 474,
};

/** The body limit of requests to other servers; a test compares it with the limit of the service. */
export const proxyBodyLimit = '16m';

const choice: readonly string[] = [
  '  # Refused before the body is read: a request without a key would only use memory.',
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
];

const services: readonly string[] = [
  '# Reads. A GET that failed is sent to one other server; a POST (search) only if no byte of it was sent.',
  'location @query {',
  '  proxy_pass http://vault_query;',
  '  proxy_next_upstream error timeout;',
  '  proxy_next_upstream_tries 2;',
  '  proxy_next_upstream_timeout 5s;',
  '}',
  '',
  '# POST and PATCH: sent to another server only if no byte was sent (nginx never repeats these by itself).',
  'location @command {',
  '  proxy_pass http://vault_command;',
  '  proxy_next_upstream error timeout;',
  '  proxy_next_upstream_tries 2;',
  '  proxy_next_upstream_timeout 5s;',
  '}',
  '',
  '# PUT and DELETE, which nginx would repeat: sent once, to one server.',
  'location @command_once {',
  '  proxy_pass http://vault_command;',
  '  proxy_next_upstream off;',
  '}',
  '',
  '# Requests to other servers: sent once, with all headers (the service removes those of the vault) and any body up to the limit.',
  'location @proxy {',
  `  client_max_body_size ${proxyBodyLimit};`,
  '  proxy_pass http://vault_proxy;',
  '  proxy_next_upstream off;',
  '  proxy_pass_request_headers on;',
  '  proxy_request_buffering off;',
  '  proxy_read_timeout 60s;',
  '  proxy_buffering off;',
  '}',
  '',
];

/** In `location /`, `return` selects one of these. nginx's `if` is safe only with `return`. */
export function locations(alwaysHeaders: readonly string[]): string[] {
  return [
    'location / {',
    ...choice,
    '}',
    '',
    '# The first location of a request decides the limit of its body.',
    `location ~* "^/(proxy/?|proxies/[^/]+/invoke(/.*)?)$" {`,
    `  client_max_body_size ${proxyBodyLimit};`,
    ...choice,
    '}',
    '',
    ...services,
    ...problemLocations(alwaysHeaders),
  ];
}

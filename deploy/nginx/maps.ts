import { traceIdPatterns } from '@token-vault/contracts';
import { knownPaths, routedOperations, type RoutedOperation } from './routes.ts';

/** The maps that find requests which need a key and have none, and the map with the key of the limit on all requests. */
function keyMaps(routed: readonly RoutedOperation[]): readonly string[] {
  return [
    '# Operations of the table need a key; the other pages do not.',
    'map $vault_operation $vault_key {',
    '  default $vault_key_given;',
    ...['none', ...routed.filter(({ needsKey }) => !needsKey).map(({ id }) => id)].map(
      (id) => `  ${id} unneeded;`,
    ),
    '}',
    '',
    '# Services get only the cookie of the console.',
    'map $http_cookie $vault_cookie {',
    '  default "";',
    '  "~(^|; *)(?<vault_console_cookie>(__Host-)?vault-console=[A-Za-z0-9._-]+)" $vault_console_cookie;',
    '}',
    '',
    'map "$http_svc_api_key$vault_cookie" $vault_key_given {',
    '  default given;',
    '  "" missing;',
    '}',
    '',
    '# The key of a limit that counts all requests together.',
    'map $host $vault_all_requests {',
    '  default all;',
    '}',
    '',
  ];
}

/** The maps of nginx: the operation of a request, its route, and the values of answers that nginx gives itself. */
export function maps(exposesHealth: boolean): readonly string[] {
  const routed = routedOperations({ exposesHealth });
  return [
    '# One line for each operation, by the path as it was sent: the services get the same path.',
    'map "$request_method $request_uri" $vault_operation {',
    '  default none;',
    ...routed.map(({ id, pattern }) => `  "~*^${pattern}" ${id};`),
    '}',
    '',
    'map $vault_operation $vault_route {',
    '  default command;',
    '  none none;',
    ...routed.filter(({ route }) => route !== 'command').map(({ id, route }) => `  ${id} ${route};`),
    '}',
    '',
    ...keyMaps(routed),
    '# Methods of a path, for 405.',
    'map $request_uri $vault_allow {',
    '  default "";',
    ...knownPaths().map(({ pattern, methods }) => `  "~*^${pattern}" "${methods}";`),
    '}',
    '',
    ...answerMaps,
  ];
}

const answerMaps: readonly string[] = [
  'map $http_svc_trace_id $vault_trace_id {',
  '  default $request_id;',
  ...traceIdPatterns.standard.map((pattern) => `  "~${pattern}" $http_svc_trace_id;`),
  `  "~${traceIdPatterns.cardNumber}" $request_id;`,
  `  "~${traceIdPatterns.acceptable}" $http_svc_trace_id;`,
  '}',
  '',
  '# The trace id in answers of nginx itself: without quotes and backslashes.',
  'map $vault_trace_id $vault_own_trace_id {',
  '  default $vault_trace_id;',
  '  "~[\\x22\\x5c]" $request_id;',
  '}',
  '',
  'map $request_uri $vault_instance {',
  '  default /;',
  '  "~^(?<vault_plain_path>/[A-Za-z0-9._~/-]*)(\\?|$)" $vault_plain_path;',
  '}',
  '',
  '# A write may have been done if one byte of it was sent.',
  'map "$vault_route $upstream_bytes_sent" $vault_failure {',
  '  default unavailable;',
  '  "~^(command|proxy).* .*[1-9]" unknown;',
  '}',
  '',
];

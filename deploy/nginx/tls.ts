import { misdirected } from './problems.ts';
import { indented } from './text.ts';

export interface GatewayTls {
  readonly certificate: string;
  readonly key: string;
  readonly serverName: string;
  /** Needs nginx 1.25.1 or newer. */
  readonly http2: boolean;
}

/** For all servers: a handshake begins before the name of the server is known. */
export function tlsSettings(): string[] {
  return [
    'ssl_protocols TLSv1.2 TLSv1.3;',
    '# Only ciphers with forward secrecy and authenticated encryption; all ciphers of TLS 1.3 have both.',
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

export const namedServer = (tls: GatewayTls): string[] => [
  `server_name ${tls.serverName};`,
  ...(tls.http2 ? ['http2 on;'] : []),
  `ssl_certificate ${tls.certificate};`,
  `ssl_certificate_key ${tls.key};`,
  '',
];

/** A handshake for any other name is refused, so that no client reaches the vault by an address or another name. */
export const otherNames = (listen: string): string[] => [
  'server {',
  `  listen ${listen} ssl default_server;`,
  '  server_name _;',
  '  ssl_reject_handshake on;',
  '  # The handshake named the right server, but the request names another host.',
  '  location / {',
  '    return 421;',
  '  }',
  ...indented([...misdirected.errorPages, ...misdirected.locations]),
  '}',
  '',
];

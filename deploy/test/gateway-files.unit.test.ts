import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { methodsOf, operations, type Operation } from '@token-vault/contracts';
import { rawBodyLimitBytes } from '@token-vault/http';
import { describe, expect, it } from 'vitest';
import { bodyLimit, gatewayConfiguration } from '../nginx/configuration.ts';
import { proxyBodyLimit } from '../nginx/locations.ts';
import { generatedFiles, places } from '../nginx/places.ts';
import { knownPaths, routedOperations } from '../nginx/routes.ts';
import { makeCertificate, openssl } from './certificate.ts';
import { bodyLimitBytes } from './files.ts';
import { nginxBinary } from './running-gateway.ts';

const root = path.resolve(import.meta.dirname, '../..');
const table = Object.entries(operations as Readonly<Record<string, Operation>>);
const routed = routedOperations({ exposesHealth: false });
/** Behaves like the map of nginx: the first matching pattern counts. */
const routeTo = (request: string) =>
  routed.find(({ pattern }) => new RegExp(`^${pattern}`, 'i').test(request))?.id;

/** The number of unclosed blocks; quoted text and comments are ignored. Only nginx itself is a strict enough parser. */
function openBlocks(content: string): number {
  const code = content.replaceAll(/^\s*#.*$/gm, '').replaceAll(/"[^"]*"|'[^']*'/g, '');
  let depth = 0;
  for (const character of code) {
    if (character === '{') depth += 1;
    if (character === '}') depth -= 1;
    if (depth < 0) return depth;
  }
  return depth;
}

describe('the committed configurations of the gateway', () => {
  it.each([...generatedFiles()])('%s equals the output of the generator', (file, content) => {
    // When this fails: node scripts/run.mjs node deploy/nginx/generate.ts
    expect(readFileSync(path.join(root, file), 'utf8')).toBe(content);
  });

  it.each([...generatedFiles()])(
    '%s is well-formed, ends every directive and closes every block',
    (_file, content) => {
      expect(openBlocks(content)).toBe(0);
      const meaningful = content.split('\n').map((line) => line.trim());
      const unended = meaningful.filter(
        (line) =>
          line !== '' && !line.startsWith('#') && !/[;{}]$/.test(line) && !/^(log_format|')/.test(line),
      );
      expect(unended).toEqual([]);
    },
  );

  it.each(Object.entries(places))(
    '%s keeps bodies and answers in memory, and quotes no request in its logs',
    (_file, place) => {
      const text = gatewayConfiguration(place);
      expect(text).toContain('proxy_max_temp_file_size 0;');
      expect(text).toContain('proxy_pass_request_headers off;');
      expect(text).toMatch(/error_log \S+ crit;/);
      const format = /log_format vault[^;]+;/.exec(text)?.[0] ?? '';
      expect(format).not.toMatch(
        /\$(request|request_uri|uri|args|query_string|request_body|http_\w+|arg_\w+)\b/,
      );
    },
  );
});

describe('an answer with headers of reactor code', () => {
  it.each(Object.entries(places))('does not control %s', (_file, place) => {
    const ignored = /proxy_ignore_headers ([^;]+);/.exec(gatewayConfiguration(place))?.[1]?.split(' ');
    const orders = ['Redirect', 'Expires', 'Limit-Rate', 'Buffering', 'Charset'];
    expect(ignored).toEqual(orders.map((order) => `X-Accel-${order}`));
  });
});

describe('the routes of the gateway', () => {
  it.each(table)('match %s by its own line, whatever line precedes it', (id, operation) => {
    const { path: template } = operation;
    const [method = ''] = methodsOf(operation);
    const to = template.replaceAll(/\{\w+\}/g, 'abc');
    expect(routeTo(`${method} ${to}`)).toBe(id);
    expect(routeTo(`${method} ${to}/?size=1`)).toBe(id);
    expect(routeTo(`${method} ${to.toUpperCase()}`)).toBe(id);
    // The rest of a path may have any length.
    const isOpen = template.endsWith('*}');
    expect(routeTo(`${method} ${to}/x/y/z`)).toBe(isOpen ? id : undefined);
    expect(routeTo(`${method} /x${to}`)).toBeUndefined();
  });

  it('repeat no request whose repetition has an effect', () => {
    for (const { id, route } of routed) {
      const operation = (operations as Readonly<Record<string, Operation>>)[id];
      if (operation?.service !== 'command') expect(route).toBe(operation?.service ?? 'query');
      else expect(route).toBe(['PUT', 'DELETE'].includes(operation.method) ? 'command_once' : 'command');
    }
  });

  it('name every method of a path', () => {
    const allowed = knownPaths().find(({ pattern }) => new RegExp(`^${pattern}`).test('/tokens/abc'));
    expect(allowed?.methods).toBe('GET, PATCH, DELETE');
  });

  it('limit bodies as the services do', () => {
    expect(bodyLimit).toBe(`${bodyLimitBytes / 1024 / 1024}m`);
    expect(proxyBodyLimit).toBe(`${rawBodyLimitBytes / 1024 / 1024}m`);
  });
});

describe.skipIf(nginxBinary === undefined || !openssl)('nginx -t (skipped without nginx or openssl)', () => {
  it('accepts the configuration with TLS', () => {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'vault-gateway-test-'));
    const file = (name: string) => path.join(directory, name);
    const { certificate, key, remove } = makeCertificate('vault.example.com');
    try {
      const configuration = gatewayConfiguration({
        ...places['nginx/tls-example.conf']!,
        listen: '127.0.0.1:8443',
        // `http2 on` needs a newer nginx than Debian's.
        tls: { certificate, key, serverName: 'vault.example.com', http2: false },
        pidFile: file('pid'),
        temporaryDirectory: directory,
        accessLog: file('access.log'),
        errorLog: file('error.log'),
      });
      writeFileSync(file('nginx.conf'), configuration);
      const tested = spawnSync(nginxBinary ?? '', ['-t', '-p', directory, '-c', file('nginx.conf')]);
      expect(tested.stderr.toString()).toContain('test is successful');
    } finally {
      rmSync(directory, { recursive: true, force: true });
      remove();
    }
  });
});

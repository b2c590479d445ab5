import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http, { type IncomingHttpHeaders } from 'node:http';
import net, { type AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePorts } from '@token-vault/process';
import { gatewayConfiguration, type GatewayOptions } from '../nginx/configuration.ts';

const candidates = [process.env.NGINX ?? '', '/usr/sbin/nginx', '/usr/local/sbin/nginx', '/usr/bin/nginx'];

/** Debian's `nginx-light` is enough. Undefined: not installed here. */
export const nginxBinary: string | undefined = candidates.find((file) => file !== '' && existsSync(file));

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface FakeService {
  readonly port: number;
  readonly seen: Seen[];
  /** The behaviour for the next requests; `answer` by default. */
  behaviour: 'answer' | 'cut' | 'problem' | 'hold';
  /** Further headers of its own answers. */
  headers: Readonly<Record<string, string>>;
  release(): void;
  close(): Promise<void>;
}

/** A service that answers with its own name, or ends the connection after it has read the request. */
export async function startFakeService(name: string): Promise<FakeService> {
  const held = new Set<() => void>();
  const seen: Seen[] = [];
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      seen.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
      const answer = () =>
        response
          .writeHead(200, { 'X-Powered-By': 'fake', ...service.headers })
          .end(JSON.stringify({ service: name, url }));
      switch (service.behaviour) {
        case 'cut':
          return void request.socket.destroy();
        case 'problem':
          return void response.writeHead(503, { 'Retry-After': '7' }).end('{"own":"problem"}');
        case 'hold':
          return void held.add(answer);
        case 'answer':
          answer();
      }
    });
  });
  server.keepAliveTimeout = 65_000;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const service: FakeService = {
    port: (server.address() as AddressInfo).port,
    seen,
    behaviour: 'answer',
    headers: {},
    release() {
      for (const answer of held) answer();
      held.clear();
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return service;
}

export interface Gateway {
  readonly port: number;
  readonly internalPort: number;
  readonly directory: string;
  /** Processes that serve requests. */
  workerPids(): readonly number[];
  accessLog(): Record<string, unknown>[];
  /** All files that nginx wrote: logs and temporary files. */
  files(): string;
  stop(): Promise<void>;
}

async function untilListening(port: number, child: ChildProcess): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    if (child.exitCode !== null) throw new Error(`nginx ended with ${child.exitCode}`);
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = net.connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
      socket.on('connect', () => socket.end());
    });
    if (isOpen) return;
    await pause(25);
  }
  throw new Error('nginx does not listen');
}

/** Only on Linux. */
const childrenOf = (pid: number): readonly number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').match(/\d+/g)?.map(Number) ?? [];

type Servers = Pick<GatewayOptions, 'commandServers' | 'queryServers' | 'proxyServers'>;

/** Runs a real nginx with a configuration made by `gatewayConfiguration`, on ports of this machine. */
export async function startGateway(servers: Servers, more: Partial<GatewayOptions> = {}): Promise<Gateway> {
  if (nginxBinary === undefined) throw new Error('nginx is not installed');
  const directory = mkdtempSync(path.join(os.tmpdir(), 'vault-gateway-'));
  const file = (name: string) => path.join(directory, name);
  const [port = 0, internalPort = 0] = await freePorts(['127.0.0.1', '127.0.0.1']);
  const configuration = gatewayConfiguration({
    ...servers,
    listen: `127.0.0.1:${port}`,
    internalListen: `127.0.0.1:${internalPort}`,
    pidFile: file('nginx.pid'),
    temporaryDirectory: directory,
    accessLog: file('access.log'),
    errorLog: file('error.log'),
    workerProcesses: 1,
    ...more,
  });
  writeFileSync(file('nginx.conf'), configuration);
  // If started as root, nginx would run its workers under another account, which cannot write here.
  const account = process.getuid?.() === 0 ? ' user root;' : '';
  const child = spawn(
    nginxBinary,
    ['-p', directory, '-c', file('nginx.conf'), '-g', `daemon off;${account}`],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let complaints = '';
  child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()));
  const ended = new Promise((resolve) => child.once('exit', resolve));
  await untilListening(port, child).catch((cause: unknown) => {
    throw new Error(`nginx does not start: ${complaints}`, { cause });
  });
  const read = (name: string) => (existsSync(file(name)) ? readFileSync(file(name), 'utf8') : '');
  return {
    port,
    internalPort,
    directory,
    workerPids: () => childrenOf(child.pid ?? 0),
    accessLog: () =>
      read('access.log')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    files: () => read('access.log') + read('error.log') + complaints,
    async stop() {
      child.kill('SIGTERM');
      await ended;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export const problemOf = (answer: Answer) => JSON.parse(answer.body) as Record<string, unknown>;

/** Sends `path` unchanged. */
export function send(
  port: number,
  method: string,
  path: string,
  options: { headers?: Record<string, string>; body?: string | Buffer } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = http.request(
      {
        host: '127.0.0.1',
        port,
        method,
        path,
        headers: { 'SVC-API-KEY': 'key', ...options.headers },
        agent: false,
      },
      (response) => {
        let body = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
        );
      },
    );
    request.on('error', reject);
    request.end(options.body);
  });
}

/** The answer of a server to bytes that no HTTP client would send. */
export function sendRaw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = net.connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.setEncoding('utf8').on('data', (chunk: string) => (answer += chunk));
    socket.on('end', () => socket.end()).on('close', () => resolve(answer));
    socket.on('error', reject);
  });
}

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { Refusal, TransitKeys } from './keys.ts';

/** The faults of the double, changed while it runs. */
export interface TransitFaults {
  /** 503 with the message of a sealed server. */
  sealed: boolean;
  /** 403 for matching paths. */
  deny: RegExp | undefined;
  /** The next requests get these statuses, one each. */
  failNext: number[];
  /** Sent with each failure. */
  retryAfterSeconds: number | undefined;
  /** Accepts requests and never answers. */
  hang: boolean;
  /** Ignores associated data, as servers before 1.9 do. */
  ignoreAssociatedData: boolean;
  /** A standby node that sends clients to the active one. */
  redirectTo: string | undefined;
  /** Answers that are no JSON. */
  garbled: boolean;
}

export interface TransitDouble {
  /** `http(s)://127.0.0.1:…`. It stays the same while the double lives. */
  readonly url: string;
  /** The only accepted token. It may be changed. */
  token: string;
  readonly keys: TransitKeys;
  readonly faults: TransitFaults;
  /** The method, path and namespace of each request so far. */
  readonly calls: readonly string[];
  /** Closes the port and cuts the connections. The keys are kept for `up`. */
  down(): Promise<void>;
  up(): Promise<void>;
}

export interface TransitDoubleOptions {
  /** Serves https, with a certificate of the authority in `transitAuthorityFile`. */
  readonly tls?: boolean;
}

const tlsFile = (name: string) => path.join(import.meta.dirname, 'tls', name);
/** PEM. */
export const transitAuthorityFile = tlsFile('authority.pem');

const noFaults = (): TransitFaults => ({
  sealed: false,
  deny: undefined,
  failNext: [],
  retryAfterSeconds: undefined,
  hang: false,
  ignoreAssociatedData: false,
  redirectTo: undefined,
  garbled: false,
});

type Body = Readonly<Record<string, unknown>>;
const bytes = (body: Body, field: string) => Buffer.from((body[field] ?? '') as string, 'base64');

/**
 * The transit engine of a HashiCorp Vault or OpenBao over real HTTP, mounted at `transit`. It lacks policies (`deny`
 * instead), other engines, batches, derivation and convergent encryption.
 */
class Engine {
  readonly keys = new TransitKeys();
  readonly faults = noFaults();
  readonly calls: string[] = [];
  token = `hvs.${randomBytes(18).toString('base64url')}`;

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const address = request.url ?? '';
    const namespace = request.headers['x-vault-namespace'];
    this.calls.push(`${request.method} ${address}${typeof namespace === 'string' ? ` in ${namespace}` : ''}`);
    const sent = await text(request);
    if (this.faults.hang) return;
    if (this.faults.redirectTo !== undefined) {
      response.writeHead(307, { location: `${this.faults.redirectTo}${address}` }).end();
      return;
    }
    try {
      this.#fail(request, address);
      const data = this.#do(address, (sent === '' ? {} : JSON.parse(sent)) as Body);
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(this.faults.garbled ? '<html>' : JSON.stringify({ request_id: 'double', data }));
    } catch (error) {
      const { status, message } = error instanceof Refusal ? error : new Refusal(500, 'internal error');
      const { retryAfterSeconds } = this.faults;
      response.writeHead(status, {
        'content-type': 'application/json',
        ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
      });
      response.end(JSON.stringify({ errors: message === '' ? [] : [message] }));
    }
  }

  /** An error of a real server may quote its input, so this one does too: tests look for the token in messages. */
  #fail(request: IncomingMessage, address: string): void {
    const given = String(request.headers['x-vault-token']);
    const planned = this.faults.failNext.shift();
    if (planned !== undefined) throw new Refusal(planned, `as planned for ${given}`);
    if (this.faults.sealed) throw new Refusal(503, 'Vault is sealed');
    if (given !== this.token || this.faults.deny?.test(address) === true)
      throw new Refusal(403, `1 error occurred:\n\t* permission denied for ${given}\n\n`);
  }

  #do(address: string, body: Body): object {
    const [, operation = '', name = ''] =
      /^\/v1\/transit\/(keys|encrypt|decrypt)\/([\w.-]+)$/.exec(address) ?? [];
    const aad = this.faults.ignoreAssociatedData ? Buffer.alloc(0) : bytes(body, 'associated_data');
    if (operation === 'keys') return this.keys.describe(name);
    if (operation === 'encrypt')
      return this.keys.encrypt(name, bytes(body, 'plaintext'), aad, body.key_version as number | undefined);
    if (operation === 'decrypt') return this.keys.decrypt(name, String(body.ciphertext), aad);
    throw new Refusal(404, 'no handler for route');
  }
}

export async function startTransitDouble(options: TransitDoubleOptions = {}): Promise<TransitDouble> {
  const engine = new Engine();
  const connections = new Set<Socket>();
  let server: Server | undefined;
  let port = 0;

  async function up(): Promise<void> {
    const listener = (request: IncomingMessage, response: ServerResponse) =>
      void engine.answer(request, response);
    const opened = options.tls
      ? createTlsServer(
          { key: readFileSync(tlsFile('server.key.pem')), cert: readFileSync(tlsFile('server.pem')) },
          listener,
        )
      : createServer(listener);
    opened.on('connection', (socket: Socket) => {
      connections.add(socket.on('close', () => connections.delete(socket)));
    });
    await new Promise<void>((resolve, reject) => {
      opened.once('error', reject).listen(port, '127.0.0.1', resolve);
    });
    ({ port } = opened.address() as AddressInfo);
    server = opened;
  }

  async function down(): Promise<void> {
    const closing = server;
    server = undefined;
    for (const socket of connections) socket.destroy();
    await new Promise<void>((resolve) => (closing ? closing.close(() => resolve()) : resolve()));
  }

  await up();
  return {
    url: `http${options.tls ? 's' : ''}://127.0.0.1:${port}`,
    get token() {
      return engine.token;
    },
    set token(value) {
      engine.token = value;
    },
    keys: engine.keys,
    faults: engine.faults,
    calls: engine.calls,
    up,
    down,
  };
}

import net from 'node:net';
import tls from 'node:tls';

export interface Reply {
  readonly status: number;
  readonly body: string;
}

/**
 * One keep-alive HTTP/1.1 connection, one request at a time. It uses a bare socket, because the generator shares the
 * two cores with the measured vault: a general client would take a quarter of them.
 */
export class Connection {
  readonly #socket: net.Socket;
  #received = '';
  #settle: { resolve: (reply: Reply) => void; reject: (error: Error) => void } | undefined;

  constructor(socket: net.Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => this.#receive(chunk));
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('the server closed the connection')));
  }

  /** `ca`: the certificate of a server that speaks TLS. */
  static open(port: number, ca?: string): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const at = { host: '127.0.0.1', port };
      const done = () => resolve(new Connection(socket));
      const socket = ca === undefined ? net.connect(at, done) : tls.connect({ ...at, ca }, done);
      socket.once('error', reject);
    });
  }

  request(bytes: string): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.#socket.write(bytes, 'latin1');
    });
  }

  close(): void {
    this.#settle = undefined;
    this.#socket.destroy();
  }

  #fail(error: Error): void {
    this.#settle?.reject(error);
    this.#settle = undefined;
  }

  #receive(chunk: string): void {
    this.#received += chunk;
    const headEnd = this.#received.indexOf('\r\n\r\n');
    if (headEnd < 0) return;
    const head = this.#received.slice(0, headEnd);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#received.length < headEnd + 4 + length) return;
    const reply = {
      status: Number(head.slice(9, 12)),
      body: this.#received.slice(headEnd + 4, headEnd + 4 + length),
    };
    this.#received = this.#received.slice(headEnd + 4 + length);
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.resolve(reply);
  }
}

export function requestBytes(
  method: string,
  path: string,
  key: string,
  body?: object,
  headers: Readonly<Record<string, string>> = {},
): string {
  const payload = body === undefined ? '' : JSON.stringify(body);
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: localhost',
    `SVC-API-KEY: ${key}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(body === undefined
      ? []
      : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(payload)}`]),
  ];
  return `${lines.join('\r\n')}\r\n\r\n${payload}`;
}

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

interface Arrived {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export interface Destination {
  readonly url: string;
  /** The file of its certificate, for NODE_EXTRA_CA_CERTS. */
  readonly caFile: string;
  readonly arrived: Arrived[];
  /** Answers each request when its body is complete. By default with 200 and the number of requests so far. */
  answer: (request: Arrived, response: ServerResponse) => void;
  /** Serves a connection that another server has accepted. */
  take(socket: Socket): void;
  close(): Promise<void>;
}

const subject = ['-subj', '/CN=destination', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];

/** A real HTTPS server with a self-signed certificate, in the place of a payment provider. */
export async function startDestination(): Promise<Destination> {
  const directory = mkdtempSync(path.join(tmpdir(), 'vault-destination-'));
  const [keyFile, caFile] = [path.join(directory, 'key.pem'), path.join(directory, 'ca.pem')];
  const making = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  execFileSync('openssl', [...making, '-days', '2', ...subject, '-keyout', keyFile, '-out', caFile], {
    stdio: 'ignore',
  });
  const arrived: Arrived[] = [];
  const usual: Destination['answer'] = (_request, response) => void response.end(String(arrived.length));

  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = '', url = '', headers, rawHeaders } = request;
    const one = { method, url, headers, rawHeaders, body: Buffer.concat(chunks) };
    arrived.push(one);
    destination.answer(one, response);
  };
  const keys = { key: readFileSync(keyFile), cert: readFileSync(caFile) };
  const server = createServer(keys, (request, response) => {
    take(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const destination: Destination = {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    caFile,
    arrived,
    answer: usual,
    take: (socket) => void server.emit('connection', socket),
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          rmSync(directory, { recursive: true, force: true });
          resolve();
        });
        server.closeAllConnections();
      }),
  };
  return destination;
}

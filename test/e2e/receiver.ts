import { createHmac } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Delivery {
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

export interface Receiver {
  readonly url: string;
  readonly deliveries: readonly Delivery[];
  /** The answers to the next deliveries: a status, or none. 204 after the last one. */
  plan(...answers: readonly (number | 'hang')[]): void;
  /** Requests that have got no answer. */
  readonly held: number;
  /** Answers them. */
  release(): void;
  close(): Promise<void>;
}

/** A real receiver of webhooks on this machine. */
export async function startReceiver(): Promise<Receiver> {
  const deliveries: Delivery[] = [];
  const planned: (number | 'hang')[] = [];
  const held: ServerResponse[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    deliveries.push({ headers: request.headers, text: Buffer.concat(chunks).toString() });
    const answer = planned.shift() ?? 204;
    if (answer === 'hang') return void held.push(response);
    response.writeHead(answer, answer === 302 ? { location: '/elsewhere' } : {}).end();
  };
  const server = createServer((request, response) => void take(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook`,
    deliveries,
    plan: (...answers) => void planned.push(...answers),
    get held() {
      return held.length;
    },
    release() {
      for (const response of held.splice(0)) response.writeHead(204).end();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Checks the signature as the libraries of Standard Webhooks do. */
export function isSigned({ headers, text }: Delivery, secret: string): boolean {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const content = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${text}`;
  const expected = createHmac('sha256', key).update(content).digest('base64');
  const isRecent = Math.abs(Date.now() / 1000 - Number(headers['webhook-timestamp'])) < 300;
  return signaturesOf({ headers }).includes(`v1,${expected}`) && isRecent;
}

export const signaturesOf = ({ headers }: Pick<Delivery, 'headers'>): readonly string[] =>
  String(headers['webhook-signature']).split(' ');

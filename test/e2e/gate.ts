import { createServer, type AddressInfo, type Socket } from 'node:net';
import type { Destination } from './destination.ts';

/** A server in front of a destination: accepts connections and delays them until it is opened. */
export interface Gate {
  readonly url: string;
  readonly held: readonly Socket[];
  /** Passes the connections on to the destination. */
  open(): void;
  /** Ends the connections. The vault keeps them for its next requests. */
  clear(): void;
  close(): void;
}

export async function startGate(destination: Destination): Promise<Gate> {
  const all: Socket[] = [];
  const held: Socket[] = [];
  const server = createServer((socket) => {
    all.push(socket.on('error', () => undefined));
    held.push(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    held,
    open() {
      held.splice(0).forEach((socket) => {
        destination.take(socket);
      });
    },
    clear() {
      held.length = 0;
      all.splice(0).forEach((socket) => socket.destroy());
    },
    close: () => void server.close(),
  };
}

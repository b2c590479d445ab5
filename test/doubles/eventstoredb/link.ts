import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/**
 * The network between clients and the server: a port that can be closed, cut and frozen while the server keeps
 * running.
 */
export class NetworkLink {
  readonly #target: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #port = 0;
  #isFrozen = false;

  constructor(target: number) {
    this.#target = target;
  }

  get port(): number {
    return this.#port;
  }

  /** Opens the port: `port`, the former one, or any. */
  async up(port = this.#port): Promise<void> {
    if (this.#server) return;
    this.#server = createServer((socket) => this.#join(socket));
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async down(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    const closed = server && new Promise((resolve) => server.close(resolve));
    this.cut();
    await closed;
  }

  /** Breaks every connection. New ones succeed. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** No data passes in either direction, and connections stay open. */
  freeze(): void {
    this.#isFrozen = true;
    for (const socket of this.#sockets) socket.pause();
  }

  thaw(): void {
    this.#isFrozen = false;
    for (const socket of this.#sockets) socket.resume();
  }

  #join(client: Socket): void {
    const server = connect(this.#target, '127.0.0.1');
    this.#forward(client, server);
    this.#forward(server, client);
  }

  #forward(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    from.setNoDelay(true);
    from.on('data', (chunk) => {
      if (to.write(chunk)) return;
      from.pause();
      to.once('drain', () => {
        if (!this.#isFrozen) from.resume();
      });
    });
    from.on('error', () => undefined);
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
    if (this.#isFrozen) from.pause();
  }
}

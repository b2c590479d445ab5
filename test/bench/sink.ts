// A server in a thread of its own that answers each request by one status at once, unread, and closes the connection. The bench uses it
// to measure the load of an attack's client alone, without the vault.
import os from 'node:os';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

interface SinkData {
  readonly sinkStatus: number;
}

/** @returns the URL of the server. It ends with the thread that started it. */
export async function startSink(status: number): Promise<string> {
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { sinkStatus: status } satisfies SinkData,
  });
  const [port] = (await once(worker, 'message')) as [number];
  return `http://127.0.0.1:${port}`;
}

function serve(port: NonNullable<typeof parentPort>, status: number): void {
  os.setPriority(os.constants.priority.PRIORITY_LOW);
  const answer = `HTTP/1.1 ${status} -\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(answer, () => socket.destroy()));
  });
  server.listen(0, '127.0.0.1', () => port.postMessage((server.address() as AddressInfo).port));
}

const started = workerData as SinkData | null;
if (!isMainThread && parentPort && started?.sinkStatus !== undefined) serve(parentPort, started.sinkStatus);

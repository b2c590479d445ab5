import { chmod, mkdir } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { startEmbeddedPostgres } from '@token-vault/embedded-postgres';
import { freePorts } from '@token-vault/process';
import { startEventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';
import { createDataDirectory, removeDataDirectory } from '@token-vault/test-support';
import { startKafka } from '@token-vault/test-support/kafka';

/** Passes the connections to `address:port` on to a port of loopback. */
async function forward(address: string, port: number, to: number): Promise<net.Server> {
  const server = net.createServer((near) => {
    const far = net.connect(to, '127.0.0.1');
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const)
      one.pipe(other).on('error', () => one.destroy());
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, address, resolve));
  return server;
}

export interface Stores {
  /** As containers reach Postgres. */
  readonly databaseUrl: string;
  /** Why Kafka is not among them. */
  readonly withoutKafka: string | undefined;
  close(): Promise<void>;
}

/**
 * Postgres, the double of EventStoreDB and, where there is Java, Kafka: processes of this machine, which containers reach at `address` by the
 * ports of compose.yaml. Always the double, also with EVENTSTOREDB_SERVER: the subject is the images, not the store.
 */
export async function startStores(address: string): Promise<Stores> {
  const directory = await createDataDirectory();
  const closers: (() => unknown)[] = [() => removeDataDirectory(directory)];
  const close = async () => {
    for (const closer of closers.reverse()) await closer();
  };
  try {
    const open = async (port: number, to: number) => {
      const server = await forward(address, port, to);
      closers.push(() => server.close());
    };
    const [port = 0] = await freePorts(['127.0.0.1']);
    const dataDir = path.join(directory, 'postgres');
    await mkdir(dataDir, { mode: 0o711 });
    await chmod(dataDir, 0o711);
    const postgres = await startEmbeddedPostgres({ dataDir, port, settings: { fsync: false } });
    closers.push(() => postgres.stop());
    await open(5432, port);
    const eventStore = await startEventStoreDbDouble({});
    closers.push(() => eventStore.close());
    await open(2113, eventStore.port);
    const kafka = await startKafka({ advertised: 'kafka:9092' });
    const withoutKafka = 'missing' in kafka ? kafka.missing : undefined;
    if (!('missing' in kafka)) {
      closers.push(() => kafka.stop());
      await open(9092, Number(kafka.brokers[0]?.split(':')[1]));
    }
    const url = new URL(postgres.url);
    const [user, password] = ['user', 'password'].map((name) => url.searchParams.get(name) ?? '');
    const databaseUrl = `postgres://${user}:${encodeURIComponent(password ?? '')}@postgres:5432/postgres`;
    return { databaseUrl, withoutKafka, close };
  } catch (error) {
    await close();
    throw error;
  }
}

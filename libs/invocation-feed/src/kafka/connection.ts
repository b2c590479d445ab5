import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Kafka, logLevel, Partitioners, type ISocketFactory, type KafkaConfig, type Producer } from 'kafkajs';

/** Brokers, TLS, credentials, log: the options of kafkajs. Without a `logLevel` kafkajs logs nothing. */
export type KafkaConnection = Omit<KafkaConfig, 'socketFactory'>;

const keepAliveMs = 60_000;

export function createClient(connection: KafkaConnection): Kafka {
  return new Kafka({ logLevel: logLevel.NOTHING, ...connection });
}

/**
 * `close` ends the connections of the client, and the client makes no more. A consumer of kafkajs that is disconnected
 * while it joins its group can join it afterwards, and can then not be stopped (kafkajs issue 1639): it would keep
 * partitions and take no message.
 */
export function createClosableClient(connection: KafkaConnection): { client: Kafka; close: () => void } {
  const sockets = new Set<Socket>();
  let isClosed = false;
  const socketFactory: ISocketFactory = ({ host, port, ssl, onConnect }) => {
    if (isClosed) throw new Error('the client is closed');
    const server = { host, port, ...(isIP(host) ? {} : { servername: host }), ...ssl };
    const socket = ssl ? connectTls(server, onConnect) : connect({ host, port }, onConnect);
    sockets.add(socket.setKeepAlive(true, keepAliveMs));
    return socket.once('close', () => sockets.delete(socket));
  };
  return {
    client: new Kafka({ logLevel: logLevel.NOTHING, ...connection, socketFactory }),
    close() {
      isClosed = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** The broker writes a message once, also when the producer repeats it, and answers when all replicas in sync have it. */
export function createProducer(connection: KafkaConnection): Producer {
  return createClient(connection).producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: Partitioners.DefaultPartitioner,
    // The callers repeat by themselves, with a new producer.
    retry: { retries: 5 },
  });
}

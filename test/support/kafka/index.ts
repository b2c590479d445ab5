import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { LocalBroker } from './broker.ts';
import { hasKafkaJars } from './jars.ts';

export interface TestKafka {
  /** Addresses for a client, `host:port`. */
  readonly brokers: readonly string[];
  /** The kind of the broker, for the report. */
  readonly kind: string;
  /** Faults of the broker. Missing when the test did not start the broker. The log is kept. */
  readonly faults?: {
    /** kill -9. */
    kill(): Promise<void>;
    /** A clean stop. */
    halt(): Promise<void>;
    /** Starts it again on the same port. */
    start(): Promise<void>;
  };
  stop(): Promise<void>;
}

export interface KafkaOptions {
  /** The address that clients are told, where they reach the broker through another one. Only for the broker from Maven Central. */
  readonly advertised?: string;
}

const run = promisify(execFile);

/**
 * A real broker: `KAFKA_BROKERS` (comma-separated), else Apache Kafka from Maven Central when Java and Maven exist
 * (the first time about 15 s for 46 MB, then from `.cache/kafka`), else a container when Docker runs, else the reason
 * why there is none.
 */
export async function startKafka(
  options: KafkaOptions = {},
): Promise<TestKafka | { readonly missing: string }> {
  const given = process.env['KAFKA_BROKERS'];
  if (given) return { brokers: given.split(','), kind: 'KAFKA_BROKERS', stop: async () => undefined };
  if ((await runs('java', '-version')) && ((await hasKafkaJars()) || (await runs('mvn', '--version'))))
    return startLocal(options);
  if (await runs('docker', 'info')) return startContainer();
  return { missing: 'KAFKA_BROKERS is not set, there is no Java with Maven, and Docker does not answer' };
}

async function startLocal({ advertised }: KafkaOptions): Promise<TestKafka> {
  const broker = await LocalBroker.create(advertised);
  await broker.start();
  return {
    brokers: [broker.address],
    kind: 'Apache Kafka from Maven Central',
    faults: {
      kill: () => broker.end('SIGKILL'),
      halt: () => broker.end('SIGTERM'),
      start: () => broker.start(),
    },
    stop: () => broker.remove(),
  };
}

/** On the host's network: a broker tells clients its address, which would differ behind a published port. */
async function startContainer(): Promise<TestKafka> {
  const image = 'docker.io/apache/kafka:3.9.1';
  const { stdout } = await run('docker', ['run', '--detach', '--rm', '--network', 'host', image]);
  const container = stdout.trim();
  return {
    brokers: ['127.0.0.1:9092'],
    kind: image,
    stop: async () => void (await run('docker', ['stop', container])),
  };
}

async function runs(command: string, ...parameters: string[]): Promise<boolean> {
  return run(command, parameters, { timeout: 20_000 }).then(
    () => true,
    () => false,
  );
}

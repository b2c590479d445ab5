import { freePorts } from '@token-vault/process';
import {
  GenericContainer,
  getContainerRuntimeClient,
  Network,
  PullPolicy,
  Wait,
  type StartedNetwork,
  type StartedTestContainer,
} from 'testcontainers';

/** The reason why no container can be started here; undefined when one can. */
export async function missingEngine(): Promise<string | undefined> {
  try {
    await getContainerRuntimeClient();
    return undefined;
  } catch (error) {
    return `no container engine answers: ${error instanceof Error ? error.message : String(error)}`;
  }
}

export const eventStoreImages = [
  'docker.io/eventstore/eventstore:23.10',
  'docker.io/eventstore/eventstore:24.10',
  'docker.io/kurrentplatform/kurrentdb:latest',
] as const;
type EventStoreImage = (typeof eventStoreImages)[number];

const grpcPort = 2113;
const startupMs = 180_000;

/** KurrentDB takes the same settings by another name. */
function settingsOf(image: EventStoreImage, settings: Readonly<Record<string, string>>) {
  const prefix = image.includes('kurrentdb') ? 'KURRENTDB' : 'EVENTSTORE';
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [`${prefix}_${name}`, value]));
}

const plainSettings = { INSECURE: 'true', RUN_PROJECTIONS: 'None' };

export interface Server {
  readonly environment: Readonly<Record<string, string>>;
  stop(): Promise<unknown>;
}

export async function startEventStore(image: EventStoreImage): Promise<Server> {
  const isNewest = image.endsWith(':latest');
  const container = await new GenericContainer(image)
    .withPullPolicy(isNewest ? PullPolicy.alwaysPull() : PullPolicy.defaultPolicy())
    .withEnvironment(settingsOf(image, { ...plainSettings, MEM_DB: 'true' }))
    .withExposedPorts(grpcPort)
    .withWaitStrategy(Wait.forHttp('/health/live', grpcPort).forStatusCode(204))
    .withStartupTimeout(startupMs)
    .start();
  const address = `${container.getHost()}:${container.getMappedPort(grpcPort)}`;
  return { environment: { EVENTSTOREDB_URL: `esdb://${address}?tls=false` }, stop: () => container.stop() };
}

export async function startPostgres(version: number): Promise<Server> {
  const container = await new GenericContainer(`docker.io/library/postgres:${version}`)
    .withEnvironment({ POSTGRES_PASSWORD: 'test' })
    .withCommand(['postgres', '-c', 'max_connections=300', '-c', 'fsync=off'])
    .withExposedPorts(5432)
    .withWaitStrategy(Wait.forLogMessage(/ready to accept connections/, 2))
    .withStartupTimeout(startupMs)
    .start();
  const address = `${container.getHost()}:${container.getMappedPort(5432)}`;
  return {
    environment: { DATABASE_URL: `postgres://postgres:test@${address}/postgres` },
    stop: () => container.stop(),
  };
}

/** A broker tells clients its address, so its port is chosen before it starts. */
export async function startKafkaBroker(): Promise<Server> {
  const [host = 0] = await freePorts(['127.0.0.1']);
  const container = await new GenericContainer('docker.io/apache/kafka:3.9.1')
    .withEnvironment({
      KAFKA_NODE_ID: '1',
      KAFKA_PROCESS_ROLES: 'broker,controller',
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@localhost:9093',
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
      KAFKA_LISTENERS: 'PLAINTEXT://:9092,CONTROLLER://:9093',
      KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://127.0.0.1:${host}`,
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
    })
    .withExposedPorts({ container: 9092, host })
    .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
    .withStartupTimeout(startupMs)
    .start();
  return { environment: { KAFKA_BROKERS: `127.0.0.1:${host}` }, stop: () => container.stop() };
}

/** Three nodes, each of which can be cut off from the network. */
export class Cluster {
  readonly #network: StartedNetwork;
  readonly #nodes: readonly StartedTestContainer[];
  readonly #ports: readonly number[];

  private constructor(
    network: StartedNetwork,
    nodes: readonly StartedTestContainer[],
    ports: readonly number[],
  ) {
    this.#network = network;
    this.#nodes = nodes;
    this.#ports = ports;
  }

  static async start(image: EventStoreImage): Promise<Cluster> {
    const network = await new Network().start();
    const ports = await freePorts(['127.0.0.1', '127.0.0.1', '127.0.0.1']);
    const seeds = ports.map((_, index) => `node${index}:${grpcPort}`);
    const nodes = await Promise.all(
      ports.map((host, index) =>
        new GenericContainer(image)
          .withEnvironment(
            settingsOf(image, {
              ...plainSettings,
              CLUSTER_SIZE: '3',
              DISCOVER_VIA_DNS: 'false',
              GOSSIP_SEED: seeds.filter((_, other) => other !== index).join(','),
              NODE_HOST_ADVERTISE_AS: `node${index}`,
              REPLICATION_HOST_ADVERTISE_AS: `node${index}`,
              ADVERTISE_HOST_TO_CLIENT_AS: '127.0.0.1',
              ADVERTISE_NODE_PORT_TO_CLIENT_AS: String(host),
              NODE_IP: '0.0.0.0',
              REPLICATION_IP: '0.0.0.0',
            }),
          )
          .withNetwork(network)
          .withNetworkAliases(`node${index}`)
          .withExposedPorts({ container: grpcPort, host })
          .withWaitStrategy(Wait.forListeningPorts())
          .withStartupTimeout(startupMs)
          .start(),
      ),
    );
    return new Cluster(network, nodes, ports);
  }

  get connectionString(): string {
    const hosts = this.#ports.map((port) => `127.0.0.1:${port}`).join(',');
    return `esdb://${hosts}?tls=false&nodePreference=leader`;
  }

  get size(): number {
    return this.#nodes.length;
  }

  async disconnect(index: number): Promise<void> {
    await (await this.#dockerNetwork()).disconnect({ Container: this.#idOf(index) });
  }

  async reconnect(index: number): Promise<void> {
    const EndpointConfig = { Aliases: [`node${index}`] };
    await (await this.#dockerNetwork()).connect({ Container: this.#idOf(index), EndpointConfig });
  }

  #idOf(index: number): string {
    return this.#nodes[index]?.getId() ?? '';
  }

  async #dockerNetwork() {
    const { container } = await getContainerRuntimeClient();
    return container.dockerode.getNetwork(this.#network.getId());
  }

  async stop(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.stop()));
    await this.#network.stop();
  }
}

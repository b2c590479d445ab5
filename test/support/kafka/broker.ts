import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { freePorts } from '@token-vault/process';
import { waitUntil } from '../src/waiting.ts';
import { kafkaJars } from './jars.ts';

const metaProperties = 'version=1\ncluster.id=dG9rZW4tdmF1bHQta2Fma2E\nnode.id=1\n';
/** Small, and tuned for a quick start. */
const javaOptions = ['-Xms64m', '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

/** One Apache Kafka node (KRaft) on loopback, with its own storage. It ends with this process in every case. */
export class LocalBroker {
  readonly #jars: string;
  readonly #folder: string;
  readonly #port: number;
  #guard: ChildProcess | undefined;
  #pid = 0;

  /** @param advertised the address that clients are told, instead of that of loopback */
  static async create(advertised?: string): Promise<LocalBroker> {
    const jars = await kafkaJars();
    const folder = await mkdtemp(path.join(tmpdir(), 'token-vault-kafka-'));
    const [port = 0, controllerPort = 0] = await freePorts(['127.0.0.1', '127.0.0.1']);
    const properties = path.join(folder, 'server.properties');
    await writeFile(properties, serverProperties(folder, port, controllerPort, advertised));
    // What `kafka-storage.sh format` writes, without a start of Java.
    await mkdir(path.join(folder, 'data'));
    await writeFile(path.join(folder, 'data/meta.properties'), metaProperties);
    return new LocalBroker(jars, folder, port);
  }

  private constructor(jars: string, folder: string, port: number) {
    this.#jars = jars;
    this.#folder = folder;
    this.#port = port;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const properties = path.join(this.#folder, 'server.properties');
    const java = ['java', ...javaOptions, '-cp', `${this.#jars}/*`, 'kafka.Kafka', properties];
    this.#guard = spawn('sh', ['-c', guardScript, 'kafka', this.#logFile, ...java], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const { stdout } = this.#guard;
    if (!stdout) throw new Error('no output');
    const [line] = (await once(createInterface({ input: stdout }), 'line')) as [string];
    this.#pid = Number(line);
    await waitUntil(() => this.#answers(), { timeoutMs: 60_000, what: 'an answer of Kafka' }).catch(
      async (cause: unknown) => {
        const log = await readFile(this.#logFile, 'utf8').catch(() => '');
        throw new Error(`Kafka did not start: ${log.slice(-2_000)}`, { cause });
      },
    );
  }

  /** Ends cleanly (SIGTERM), or at once (SIGKILL). The storage is kept. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const guard = this.#guard;
    if (!guard) return;
    this.#guard = undefined;
    const exited = once(guard, 'exit');
    process.kill(this.#pid, signal);
    await exited;
    guard.stdin?.end();
  }

  async remove(): Promise<void> {
    await this.end('SIGKILL');
    await rm(this.#folder, { recursive: true, force: true });
  }

  get #logFile(): string {
    return path.join(this.#folder, 'kafka.log');
  }

  async #answers(): Promise<boolean> {
    if (this.#guard?.exitCode !== null) throw new Error('the process has ended');
    return answersApiVersions(this.#port);
  }
}

/**
 * Prints the pid of the broker, and kills the broker when stdin ends, which happens at the end of the starting
 * process.
 */
const guardScript = `exec 3<&0; log=$1; shift
"$@" </dev/null >>"$log" 2>&1 3<&- & pid=$!
echo $pid
{ cat <&3; kill -9 $pid; } >/dev/null 2>&1 &
exec >/dev/null
wait $pid`;

function serverProperties(
  folder: string,
  port: number,
  controllerPort: number,
  advertised = `127.0.0.1:${port}`,
): string {
  return Object.entries({
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${controllerPort}`,
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}`,
    'advertised.listeners': `PLAINTEXT://${advertised}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'log.dirs': path.join(folder, 'data'),
    'auto.create.topics.enable': false,
    'offsets.topic.num.partitions': 1,
    'offsets.topic.replication.factor': 1,
    'transaction.state.log.num.partitions': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'group.initial.rebalance.delay.ms': 0,
    // A broker that was killed can return only when its session has timed out.
    'broker.session.timeout.ms': 2_000,
    'broker.heartbeat.interval.ms': 500,
    // Tests wait for sessions to time out.
    'group.min.session.timeout.ms': 1_000,
    // The cleaner's buffer alone would be half of the heap.
    'log.cleaner.enable': false,
  })
    .map(([key, value]) => `${key}=${value}\n`)
    .join('');
}

/** Sends the first request of every client: the port is open long before requests are answered. */
async function answersApiVersions(port: number): Promise<boolean> {
  const request = Buffer.from('0000000e0012000000000001000474657374', 'hex');
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    socket.write(request);
    await once(socket, 'data', { signal: AbortSignal.timeout(2_000) });
    return true;
  } finally {
    socket.destroy();
  }
}

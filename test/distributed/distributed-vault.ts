import { readFile } from 'node:fs/promises';
import path from 'node:path';
import {
  type Application,
  eventRegistry,
  type Proxy,
  type Reactor,
  streams,
  type Token,
} from '@token-vault/contracts';
import { startPosition } from '@token-vault/event-store';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { createProjectionAdmin, projections } from '@token-vault/projectors';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@token-vault/embedded-postgres';
import {
  type Answer,
  type Client,
  createDataDirectory,
  eventStoreDoubleOf,
  type EventStoreDouble,
  plainApplication,
  removeDataDirectory,
  revealingApplication,
  runCommand,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { vi } from 'vitest';
import { startKafka, type TestKafka } from '@token-vault/test-support/kafka';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ledger } from '../chaos/ledger.ts';
import { startEcho, type Echo } from './echo.ts';
import { notSealedOnce } from './sealed-once.ts';

interface Servers {
  readonly kafka: TestKafka | { readonly missing: string };
  readonly eventStore: EventStoreDouble;
  readonly postgres: EmbeddedPostgres;
  readonly echo: Echo;
}

interface StackMember {
  readonly name: string;
  readonly port: number;
  readonly pid: number | null;
}

const outcomeTypes = new Set(['ReactorSucceeded', 'ReactorFailed']);
const writers = 6;
const callers = 2;

/** Answers of the proxy and the router for a request whose destination, or whose service, has not answered. */
const unanswered = [502, 503, 504];

/**
 * Two replicas of each service, an EventStoreDB (its double), Kafka and Postgres. A test can stop each of them. Where no Kafka can run the
 * invocations take the direct feed.
 */
export class DistributedVault {
  readonly ledger = new Ledger();
  readonly kafka: TestKafka | { readonly missing: string };
  readonly eventStore: EventStoreDouble;
  readonly #dataDir: string;
  #postgres: EmbeddedPostgres;
  #vault: StandaloneProcess | undefined;
  #tokens: Client | undefined;
  #backend: Client | undefined;
  #reactorId = '';
  #proxyId = '';
  #proxiedId = '';
  /** The destination of the proxy. */
  readonly #echo: Echo;

  private constructor(dataDir: string, { kafka, eventStore, postgres, echo }: Servers) {
    this.#dataDir = dataDir;
    this.kafka = kafka;
    this.eventStore = eventStore;
    this.#postgres = postgres;
    this.#echo = echo;
  }

  static async start(): Promise<DistributedVault> {
    const kafka = await startKafka();
    if ('brokers' in kafka) vi.stubEnv('KAFKA_BROKERS', kafka.brokers.join(','));
    const dataDir = await createDataDirectory();
    const postgres = await startPostgres(dataDir);
    const eventStore = await eventStoreDoubleOf(dataDir);
    const made = new DistributedVault(dataDir, { kafka, eventStore, postgres, echo: await startEcho() });
    await made.#start();
    return made;
  }

  get vault(): StandaloneProcess {
    if (!this.#vault) throw new Error('the vault does not run');
    return this.#vault;
  }

  get tokens(): Client {
    if (!this.#tokens) throw new Error('the vault does not run');
    return this.#tokens;
  }

  get databaseUrl(): string {
    return this.#postgres.url;
  }

  async #start(): Promise<void> {
    this.#vault = await startStandaloneProcess({
      dataDir: this.#dataDir,
      stack: 'brokers' in this.kafka ? 'eventstoredb-kafka' : 'eventstoredb',
      env: {
        DATABASE_URL: this.#postgres.url,
        VAULT_LOG_LEVEL: 'warn',
        VAULT_RATE_LIMIT_PER_MINUTE: '0',
        VAULT_EGRESS_ALLOW: '127.0.0.1/32',
      },
    });
    const manager = this.vault.client();
    const make = async (body: object) => {
      const { key } = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
      return manager.withKey(key ?? '');
    };
    this.#tokens = await make(revealingApplication());
    this.#backend = await make(plainApplication({ permissions: ['token:use'] }));
    const code = 'module.exports = async (req) => ({ raw: { said: req.args.word } });';
    const body = { name: 'echo', configuration: {}, code };
    this.#reactorId = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
    const tenant = { name: 'sends', settings: { proxy_destinations: this.#echo.url } };
    await manager.expect(200, 'PUT', '/tenants/self', { body: tenant });
    const proxy = { name: 'echo', destination: this.#echo.url };
    this.#proxyId = (await manager.expect<Proxy>(201, 'POST', '/proxies', { body: proxy })).body.id;
    const token = { type: 'token', data: 'proxied' };
    this.#proxiedId = (await this.tokens.expect<Token>(201, 'POST', '/tokens', { body: token })).body.id;
    if ((await this.#throughProxy())?.status !== 200) throw new Error('the proxy does not send');
  }

  /** The present processes by name. */
  async members(): Promise<readonly StackMember[]> {
    return JSON.parse(await readFile(path.join(this.#dataDir, 'stack.json'), 'utf8')) as StackMember[];
  }

  /**
   * Loads the vault with writes, reads, reactors and requests through the proxy during `trouble` and shortly after. Gives the number of
   * successful writes.
   */
  async underLoad(trouble: () => Promise<void>): Promise<number> {
    const before = this.ledger.acknowledged;
    const end = new AbortController();
    const lives = [
      ...Array.from({ length: writers }, () => this.#write(end.signal)),
      ...Array.from({ length: callers }, () => this.#invoke(end.signal)),
      this.#send(end.signal),
    ];
    await this.#acknowledges(writers);
    await trouble();
    await this.isReady();
    await this.#acknowledges(writers);
    end.abort();
    await Promise.all(lives);
    return this.ledger.acknowledged - before;
  }

  /** A client that reconnects when its connection breaks. */
  async #write(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.ledger.live(this.tokens, signal);
      await sleep(100);
    }
  }

  /** A client that invokes a reactor, at most ten times a second. */
  async #invoke(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const body = { args: { word: 'hello' } };
      await this.#backend
        ?.request('POST', `/reactors/${this.#reactorId}/react`, { body })
        .catch(() => undefined);
      await sleep(100);
    }
  }

  /** A client that sends a token through the proxy, at most ten times a second. The destination answers with what it got. */
  async #send(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const answer = await this.#throughProxy().catch(() => undefined);
      const isRight =
        answer?.status === 200 ? answer.text === '"proxied"' : unanswered.includes(answer?.status ?? 502);
      if (!isRight) this.ledger.violations.push(`the proxy answered ${answer?.status} ${answer?.text}`);
      await sleep(100);
    }
  }

  async #throughProxy(): Promise<Answer<unknown> | undefined> {
    const text = `"{{ ${this.#proxiedId} }}"`;
    return this.#backend?.request('POST', `/proxies/${this.#proxyId}/invoke`, { text });
  }

  async #acknowledges(count: number): Promise<void> {
    const { ledger } = this;
    const until = ledger.acknowledged + count;
    const what = 'an answer of the vault to its load';
    await waitUntil(() => ledger.acknowledged > until || ledger.violations.length > 0, {
      timeoutMs: 60_000,
      what,
    });
  }

  async isReady(): Promise<void> {
    await waitUntil(
      async () => {
        const members = await this.members();
        if (members.some(({ pid }) => pid === null)) return false;
        const answers = await Promise.all(
          members
            .filter(({ name }) => name !== 'gateway')
            .map(({ port }) => fetch(`http://127.0.0.1:${port}/health/ready`)),
        );
        const through = await this.vault.client().request('GET', '/health/ready');
        return answers.every(({ ok }) => ok) && through.status === 200;
      },
      { timeoutMs: 90_000, what: 'the return of all processes' },
    );
  }

  kill(name: string): Promise<void> {
    return this.#end(name, 'SIGKILL', 10_000);
  }

  /** SIGTERM. The process has 25 s for what is under way. */
  terminate(name: string): Promise<void> {
    return this.#end(name, 'SIGTERM', 30_000);
  }

  async #end(name: string, signal: NodeJS.Signals, timeoutMs: number): Promise<void> {
    const pid = await this.#pidOf(name);
    process.kill(pid, signal);
    const what = `the end of ${name}`;
    await waitUntil(async () => (await this.members()).every((member) => member.pid !== pid), {
      timeoutMs,
      what,
    });
  }

  /** SIGSTOP, and SIGCONT after the time. */
  async freeze(name: string, ms: number): Promise<void> {
    const pid = await this.#pidOf(name);
    process.kill(pid, 'SIGSTOP');
    try {
      await sleep(ms);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  }

  async #pidOf(name: string): Promise<number> {
    const { pid } = (await this.members()).find((member) => member.name === name) ?? {};
    if (!pid) throw new Error(`${name} does not run`);
    return pid;
  }

  async stopPostgres(): Promise<void> {
    await this.#postgres.stop();
  }

  async startPostgres(): Promise<void> {
    this.#postgres = await startPostgres(this.#dataDir);
  }

  /** The differences from the acknowledged state. */
  async findings(): Promise<readonly string[]> {
    const access = { tokens: this.tokens, manager: this.vault.client(), databaseUrl: this.#postgres.url };
    return [
      ...this.ledger.violations,
      ...this.ledger.stale,
      ...(await this.ledger.audit(access)),
      ...(await this.ledger.auditLog(access)),
      ...(await this.#differingProjections()),
      ...(await this.outcomes()).filter(({ count }) => count > 1).map(({ id }) => `${id} has two outcomes`),
    ];
  }

  /** Seals and verifies the log by the command line. Gives the faults of the log and of its checkpoints. Only for a vault without load. */
  async sealFindings(): Promise<readonly string[]> {
    const environment = {
      EVENT_STORE: 'eventstoredb',
      EVENTSTOREDB_URL: this.eventStore.connectionString,
      DATABASE_URL: this.#postgres.url,
    };
    const findings: string[] = [];
    for (const command of ['seal', 'verify']) {
      const { code, stdout, stderr } = await runCommand(this.#dataDir, ['audit', command], environment);
      if (code !== 0) findings.push(`audit ${command}: ${stdout}${stderr}`);
    }
    const store = this.#openStore();
    return [...findings, ...(await notSealedOnce(store).finally(() => store.close()))];
  }

  #openStore() {
    const { connectionString } = this.eventStore;
    return createEventStoreDbEventStore({ registry: eventRegistry, connectionString });
  }

  /** The number of events of a token, in the log itself. */
  async eventsOf(tokenId: string): Promise<number> {
    const store = this.#openStore();
    try {
      let count = 0;
      for await (const _event of store.readStream(streams.token(this.vault.credentials.tenant_id, tokenId)))
        count += 1;
      return count;
    } finally {
      await store.close();
    }
  }

  async #differingProjections(): Promise<string[]> {
    const store = this.#openStore();
    try {
      const admin = createProjectionAdmin({ store, connectionString: this.#postgres.url });
      const differing: string[] = [];
      for (const { name } of projections) {
        const verification = await admin.verify(name);
        if (!verification?.isEqual) differing.push(`${name}: ${JSON.stringify(verification?.tables)}`);
      }
      return differing;
    } finally {
      await store.close();
    }
  }

  /** The number of outcomes of each invocation. */
  async outcomes(): Promise<readonly { readonly id: string; readonly count: number }[]> {
    const store = this.#openStore();
    const counts = new Map<string, number>();
    try {
      for await (const { type, stream } of store.readAll(startPosition)) {
        if (type === 'ReactorInvoked') counts.set(stream, counts.get(stream) ?? 0);
        if (outcomeTypes.has(type)) counts.set(stream, (counts.get(stream) ?? 0) + 1);
      }
    } finally {
      await store.close();
    }
    return [...counts].map(([id, count]) => ({ id, count }));
  }

  async stop(): Promise<void> {
    await this.#vault?.stop();
    await this.#postgres.stop();
    await removeDataDirectory(this.#dataDir);
    await this.#echo.close();
    if ('brokers' in this.kafka) await this.kafka.stop();
    vi.unstubAllEnvs();
  }
}

function startPostgres(dataDir: string): Promise<EmbeddedPostgres> {
  // What the vault does not wait for is written to the files up to 10 s after its commit, and is lost in a crash of Postgres before that.
  const delayed = { synchronous_commit: false, wal_writer_delay: '10s' };
  const settings = { ...delayed, fsync: false, max_connections: 250 };
  return startEmbeddedPostgres({ dataDir: path.join(dataDir, 'external'), settings });
}

import { type Application, eventRegistry } from '@token-vault/contracts';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { createProjectionAdmin, projections } from '@token-vault/projectors';
import {
  revealingApplication,
  spawnStandalone,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { type Access, Ledger } from './ledger.ts';

export const manners = ['the vault', 'both', 'postgres', 'a backend', 'the vault, twice'] as const;
/** The process that gets the `kill -9`. */
export type Manner = (typeof manners)[number];

const clients = 24;

/** A vault on `dataDir` that is killed repeatedly while clients use it. */
export class KilledVault {
  readonly ledger = new Ledger();
  readonly #dataDir: string;
  #vault: StandaloneProcess | undefined;
  #key: string | undefined;

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
  }

  get vault(): StandaloneProcess {
    if (!this.#vault) throw new Error('the vault does not run');
    return this.#vault;
  }

  async start(): Promise<void> {
    this.#vault = await startStandaloneProcess({ dataDir: this.#dataDir });
    if (this.#key !== undefined) return;
    const body = revealingApplication();
    const made = await this.vault.client().expect<Application>(201, 'POST', '/applications', { body });
    this.#key = made.body.key ?? '';
  }

  async access(): Promise<Access> {
    return {
      tokens: this.vault.client(this.#key),
      manager: this.vault.client(),
      databaseUrl: await this.vault.databaseUrl(),
    };
  }

  /** Loads the vault, kills it under load, and starts it again. Gives the number of acknowledged creates. */
  async killUnderLoad(manner: Manner): Promise<number> {
    const before = this.ledger.acknowledged;
    const client = this.vault.client(this.#key);
    const end = new AbortController();
    const lives = Array.from({ length: clients }, () => this.ledger.live(client, end.signal));
    await this.#acknowledges(clients);
    // The kill comes at a random moment of the load.
    await sleep(randomInt(600));
    await this.#kill(manner);
    end.abort();
    await Promise.all(lives);
    if (manner !== 'a backend') await this.start();
    return this.ledger.acknowledged - before;
  }

  async #acknowledges(count: number): Promise<void> {
    const until = this.ledger.acknowledged + count;
    const { violations } = this.ledger;
    const what = 'an answer of the vault to its load';
    await waitUntil(() => this.ledger.acknowledged > until || violations.length > 0, {
      timeoutMs: 60_000,
      what,
    });
    if (violations.length > 0) throw new Error(violations.slice(0, 3).join('\n'));
  }

  async #kill(manner: Manner): Promise<void> {
    switch (manner) {
      case 'the vault':
        return this.vault.kill();
      case 'both':
        return this.vault.kill({ withPostgres: true });
      case 'postgres':
        process.kill(await this.vault.postmasterPid(), 'SIGKILL');
        // Without its database the vault ends, so that its supervisor restarts it.
        return void (await this.vault.exited);
      case 'a backend':
        return this.#killBackend();
      case 'the vault, twice': {
        await this.vault.kill();
        const recovering = spawnStandalone({ dataDir: this.#dataDir });
        // The second kill comes at a random moment of the start.
        await sleep(randomInt(200, 1500));
        recovering.signal('SIGKILL');
        return void (await recovering.exited);
      }
    }
  }

  /** Postgres then ends all its sessions and recovers. The vault must reconnect without a restart. */
  async #killBackend(): Promise<void> {
    const client = new pg.Client(await this.vault.databaseUrl());
    client.on('error', () => {});
    await client.connect();
    const { rows } = await client.query<{ pid: number }>(
      `select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
       order by random() limit 1`,
    );
    for (const { pid } of rows) process.kill(pid, 'SIGKILL');
    await client.end().catch(() => undefined);
    const { vault } = this;
    await waitUntil(async () => (await vault.client().request('GET', '/health/ready')).status === 200, {
      timeoutMs: 30_000,
      what: 'the return of the vault',
    });
    await this.#acknowledges(clients);
  }

  /** Compares every read model with the log, row by row. Gives the names of those that differ. */
  async differingProjections(): Promise<string[]> {
    const connectionString = await this.vault.databaseUrl();
    const store = createPostgresEventStore({ registry: eventRegistry, connection: { connectionString } });
    try {
      const admin = createProjectionAdmin({ store, connectionString });
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
}

import { createKeyRing, isKeyRingInitialised, type KeyRing } from '@token-vault/crypto';
import { parsePosition, type EventStore } from '@token-vault/event-store';
import { authenticationReadModels, type ReadModelName } from '@token-vault/contracts';
import {
  createProjectionProgress,
  createRevocations,
  watchReadModels,
  type ReadModelWatch,
} from '@token-vault/read-models';
import { silentLogger } from '@token-vault/observability';
import { systemClock, type Revocations } from '@token-vault/operations';
import {
  Closers,
  ignoreIdleConnectionErrors,
  keyDurability,
  openEventStore,
  openRootKeys,
  watchStorage,
  readEventStoreChoice,
  type EventStoreChoice,
  type HeldRootKeys,
  type RootKeySources,
} from '@token-vault/processes';
import path from 'node:path';
import { startProjectors } from '@token-vault/projectors';
import { createPool } from '@token-vault/postgres';
import type pg from 'pg';
import { readConfig, StandaloneError, type StandaloneConfig } from '../config.ts';
import { openCommandDatabase, type CommandDatabase } from './database.ts';
import { CommandError } from './failure.ts';
import type { Terminal } from './terminal.ts';

/** The parts that commands work with. Each is opened at its first use and closed at the end of the command. */
export interface Parts {
  readonly config: StandaloneConfig;
  readonly eventStore: EventStoreChoice;
  readonly database: CommandDatabase;
  readonly pool: pg.Pool;
  readonly store: EventStore;
  readonly rootKeySources: RootKeySources;
  /** The last checkpoints, as the vault keeps them. */
  readonly checkpointsFile: string;
  /** @throws RootKeyUnusableError, StandaloneError when the vault has never started. */
  readonly rootKeys: () => Promise<HeldRootKeys>;
  /** @throws as `rootKeys`, WrongRootKeyError */
  readonly keyRing: () => Promise<KeyRing>;
  /**
   * The read models of callers, and those that are named, for commands that answer from them as the services do (rules.md §1).
   * @throws CommandError unless they have applied the whole log
   */
  readonly readModels: (...names: readonly ReadModelName[]) => Promise<ReadModelWatch>;
  /** Confirms revocations as the services do (rules.md §6), but waits longer for read models. */
  readonly revocations: () => Promise<Revocations>;
  /** Whether the read models pass `position` within 10 s, so that what the command created can be used. */
  readonly caughtUp: (position: string | undefined) => Promise<boolean>;
}

/** Runs a command on the vault that the environment names, and closes all parts in any case. */
export async function withParts<Result>(
  terminal: Terminal,
  work: (parts: Parts) => Promise<Result>,
): Promise<Result> {
  const { environment } = terminal;
  const config = readConfig(environment);
  const eventStore = readEventStoreChoice(environment);
  const rootKeyFile = environment.VAULT_ROOT_KEY_FILE;
  const closers = new Closers();
  try {
    const database = closers.add(await openCommandDatabase(config), (it) => it.close());
    return await work(await openParts({ config, database, eventStore, rootKeyFile }, closers));
  } finally {
    await closers.close();
  }
}

const waitForReadModelsMs = 10_000;

interface Place {
  readonly config: StandaloneConfig;
  readonly database: CommandDatabase;
  readonly eventStore: EventStoreChoice;
  /** VAULT_ROOT_KEY_FILE, as services have it. Undefined: in the data directory. */
  readonly rootKeyFile: string | undefined;
}

/** Commits of its connections are durable: keys and their destruction must survive a crash, whatever the setting of the operator's server. */
function openPool(connectionString: string, closers: Closers): pg.Pool {
  const settings = { max: 3, application_name: 'vault command', options: '-c synchronous_commit=on' };
  const pool = closers.add(createPool({ connectionString, ...settings }), (it) => it.end());
  ignoreIdleConnectionErrors(pool);
  return pool;
}

/** Watches the space of the disk, so that a command writes nothing below the reserve. */
async function openStorage({ config, database }: Pick<Place, 'config' | 'database'>, closers: Closers) {
  const ownPath = database.server === 'unknown' ? undefined : database.directory.postgres;
  const path = config.storagePath ?? ownPath;
  const watch = { path, logger: silentLogger, metrics: { gauge: () => undefined } };
  return closers.add(await watchStorage(watch), (it) => it.close());
}

async function openParts(
  { config, database, eventStore, rootKeyFile }: Place,
  closers: Closers,
): Promise<Parts> {
  const { url } = database;
  const data = { databaseUrl: url, eventStore };
  const pool = openPool(url, closers);
  const storage = await openStorage({ config, database }, closers);
  const store = closers.add(await openEventStore(data, { maxReadConnections: 2, storage }), (it) =>
    it.close(),
  );
  const { rootKey, nextRootKey, transit } = config;
  const rootKeySources = {
    rootKey,
    nextRootKey,
    transit,
    rootKeyFile: rootKeyFile ? path.resolve(rootKeyFile) : database.directory.rootKeyFile,
  };

  async function rootKeys(): Promise<HeldRootKeys> {
    if (!(await isKeyRingInitialised(pool)))
      throw new StandaloneError('this vault has never been started: start it once, then repeat');
    return openRootKeys(rootKeySources, pool);
  }

  return {
    config,
    eventStore,
    database,
    pool,
    store,
    rootKeySources,
    checkpointsFile: config.checkpointsFile ?? database.directory.checkpointsFile,
    rootKeys,
    async keyRing() {
      return createKeyRing({
        pool,
        ...(await rootKeys()),
        clock: systemClock,
        durability: keyDurability(data),
      });
    },
    ...readModelParts({ database, pool, store }, closers),
  };
}

function readModelParts(
  { database, pool, store }: Pick<Parts, 'database' | 'pool' | 'store'>,
  closers: Closers,
): Pick<Parts, 'readModels' | 'revocations' | 'caughtUp'> {
  const connectionString = database.url;

  async function openProgress() {
    // When the vault is stopped, no other process updates its read models.
    if (database.server === 'ours')
      closers.add(startProjectors({ store, connectionString }), (it) => it.close());
    return closers.add(await createProjectionProgress({ connectionString, logger: silentLogger }), (it) =>
      it.close(),
    );
  }

  return {
    async readModels(...more) {
      const progress = await openProgress();
      const names = [...authenticationReadModels, ...more];
      if (!(await progress.waitFor(await store.head(), waitForReadModelsMs, names)))
        throw new CommandError(
          'the read models do not show everything that is in the log; see: vault projections status',
        );
      return watchReadModels({ progress });
    },
    revocations: async () =>
      createRevocations({ pool, progress: await openProgress(), withinMs: waitForReadModelsMs }),
    async caughtUp(position) {
      if (position === undefined) return true;
      return (await openProgress()).waitFor(parsePosition(position), waitForReadModelsMs);
    },
  };
}

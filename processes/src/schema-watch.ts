import { errorFields, observeSchemaDifferences } from '@token-vault/observability';
import type { Pool } from 'pg';
import type { ProcessContext } from './data.ts';
import {
  isMigrated,
  RestoreUnfinishedError,
  SchemaMismatchError,
  SchemaTooNewError,
  SchemaUnknownError,
} from './migrations/index.ts';
import { schema } from './schema.ts';
import { compareSchemas, type SchemaComparison } from './schema-differences.ts';

/** As often as the log is sealed. */
const intervalMs = 60_000;

/** So many looks that fail one after the other are told: somebody may keep the schema from being compared, by a lock for example. */
const failuresTold = 3;

/**
 * Differences of the second of two looks that both find some: the projectors may be replacing a read model between the two statements of one look.
 * They need not be the same, as who makes them can change their names all the time.
 */
async function lastingDifferences(pool: Pool): Promise<SchemaComparison> {
  const found = await compareSchemas(pool);
  if (found.older.length + found.differences.length === 0) return found;
  const again = await compareSchemas(pool);
  return found.differences.length === 0 ? { ...again, differences: [] } : again;
}

/** The content of the table of migrations. A process with a watch has found the database migrated when it started. */
async function recordedMigrations(pool: Pool): Promise<{ newer?: string; wrong?: string }> {
  try {
    if (await isMigrated(pool, schema)) return {};
    return { wrong: 'a migration of this release is not recorded any more' };
  } catch (error) {
    if (error instanceof SchemaTooNewError || error instanceof SchemaUnknownError)
      return { newer: error.message };
    if (error instanceof SchemaMismatchError || error instanceof RestoreUnfinishedError)
      return { wrong: error.message };
    throw error;
  }
}

/**
 * After an upgrade read models may be of an older version until their successors are built. This is a warning until the first look that finds no
 * such read model, and for an hour at most. After that it is a difference: only the database says that an
 * upgrade is under way. When a newer release has migrated the database, its processes compare it. In a process of this release it is a warning for
 * an hour in all, and a difference after that: it should have been replaced.
 *
 * The schema is compared whatever else the table of migrations says: a step that is missing, or another text of one, is one more difference.
 */
function createComparison({
  pool,
  logger,
  upgradeLooks,
}: Pick<ProcessContext, 'logger'> & {
  readonly pool: Pool;
  readonly upgradeLooks: number;
}): () => Promise<readonly string[]> {
  let looksOfUpgrade = upgradeLooks;
  let looksOfNewer = upgradeLooks;

  return async () => {
    const { newer, wrong } = await recordedMigrations(pool);
    if (newer !== undefined) {
      looksOfNewer = Math.max(0, looksOfNewer - 1);
      if (looksOfNewer === 0) return [newer];
      logger.warn({ reason: newer }, 'a newer release has migrated the database');
      return [];
    }
    const { older, differences } = await lastingDifferences(pool);
    looksOfUpgrade = older.length === 0 ? 0 : Math.max(0, looksOfUpgrade - 1);
    const isUpgrade = looksOfUpgrade > 0;
    if (isUpgrade)
      logger.warn({ reason: older.join('; ') }, 'read models of an older version are not compared');
    return [...(wrong === undefined ? [] : [wrong]), ...(isUpgrade ? [] : older), ...differences];
  };
}

/**
 * Compares the schemas of the database with those of this release every minute, in every process with commands. Differences are counted, and logged
 * when they change. The vault goes on: only an operator can tell an attack from an administrator's work.
 */
export function startSchemaWatch({
  pool,
  logger,
  metrics,
  upgradeLooks = 60,
}: Pick<ProcessContext, 'logger' | 'metrics'> & {
  readonly pool: Pool;
  /** For so many looks after the start of the process its upgrade may be under way: an hour. */
  readonly upgradeLooks?: number;
}): {
  readonly look: () => Promise<void>;
  readonly close: () => Promise<void>;
} {
  const count = observeSchemaDifferences(metrics);
  const findDifferences = createComparison({ pool, logger, upgradeLooks });
  let logged = '';
  let failures = 0;
  let looking: Promise<void> = Promise.resolve();

  function tell(differences: readonly string[]): void {
    if (differences.length > 0) count();
    const reason = differences.slice(0, 5).join('; ');
    if (reason !== logged && reason !== '')
      logger.error(
        { count: differences.length, reason },
        'the schema of the database is not that of this release (audit verify)',
      );
    logged = reason;
  }

  async function look(): Promise<void> {
    try {
      tell(await findDifferences());
      failures = 0;
    } catch (error) {
      failures += 1;
      logger.warn(errorFields(error), 'the schema of the database was not compared');
      if (failures >= failuresTold) tell([`it was not compared ${failuresTold} times in a row`]);
    }
  }

  const lookNow = (): Promise<void> => {
    looking = looking.then(look);
    return looking;
  };
  const timer = setInterval(() => void lookNow(), intervalMs);
  timer.unref();
  return {
    look: lookNow,
    close() {
      clearInterval(timer);
      return looking;
    },
  };
}

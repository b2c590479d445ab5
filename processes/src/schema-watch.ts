import { errorFields, observeSchemaDifferences } from '@token-vault/observability';
import type { Pool } from 'pg';
import type { ProcessContext } from './data.ts';
import { isMigrated } from './migrations/index.ts';
import { schema } from './schema.ts';
import { compareSchemas, type SchemaComparison } from './schema-differences.ts';

/** As often as the log is sealed. */
const intervalMs = 60_000;

/** Differences that are there twice: the projectors may be replacing a read model between the two statements of one look. */
async function lastingDifferences(pool: Pool): Promise<SchemaComparison> {
  const found = await compareSchemas(pool);
  if (found.older.length + found.differences.length === 0) return found;
  const again = await compareSchemas(pool);
  return {
    older: found.older.filter((line) => again.older.includes(line)),
    differences: found.differences.filter((line) => again.differences.includes(line)),
  };
}

/**
 * Compares the schemas of the database with those of this release every minute, in every process with commands. Differences are counted, and logged
 * when they change. The vault goes on: only an operator can tell an attack from an administrator's work. When a newer release has migrated the
 * database, its processes compare it.
 *
 * After an upgrade read models may be of an older version until their successors are built. This is a warning until the first look that finds no
 * such read model, and for an hour at most. After that it is a difference: only the database says that an
 * upgrade is under way.
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
  let logged = '';
  let looksOfUpgrade = upgradeLooks;
  let looking: Promise<void> = Promise.resolve();

  async function look(): Promise<void> {
    if (!(await isMigrated(pool, schema))) return;
    const { older, differences: others } = await lastingDifferences(pool);
    looksOfUpgrade = older.length === 0 ? 0 : Math.max(0, looksOfUpgrade - 1);
    const isUpgrade = looksOfUpgrade > 0;
    if (isUpgrade)
      logger.warn({ reason: older.join('; ') }, 'read models of an older version are not compared');
    const differences = isUpgrade ? others : [...older, ...others];
    if (differences.length > 0) count();
    const reason = differences.slice(0, 5).join('; ');
    if (reason !== logged && reason !== '')
      logger.error(
        { count: differences.length, reason },
        'the schema of the database is not that of this release (audit verify)',
      );
    logged = reason;
  }

  const lookNow = (): Promise<void> => {
    looking = looking
      .then(look)
      .catch((error: unknown) =>
        logger.warn(errorFields(error), 'the schema of the database was not compared'),
      );
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

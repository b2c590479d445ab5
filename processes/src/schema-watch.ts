import { errorFields, observeSchemaDifferences } from '@token-vault/observability';
import type { Pool } from 'pg';
import type { ProcessContext } from './data.ts';
import { isMigrated } from './migrations/index.ts';
import { schema } from './schema.ts';
import { findSchemaDifferences } from './schema-differences.ts';

/** As often as the log is sealed. */
const intervalMs = 60_000;

/** Differences that are there twice: the projectors may be replacing a read model between the two statements of one look. */
async function lastingDifferences(pool: Pool): Promise<string[]> {
  const found = await findSchemaDifferences(pool);
  if (found.length === 0) return found;
  const again = new Set(await findSchemaDifferences(pool));
  return found.filter((line) => again.has(line));
}

/**
 * Compares the schemas of the database with those of this release every minute, in every process with commands. Differences are counted, and logged
 * when they change. The vault goes on: only an operator can tell an attack from an administrator's work. When a newer release has migrated the
 * database, its processes compare it.
 */
export function startSchemaWatch({
  pool,
  logger,
  metrics,
}: Pick<ProcessContext, 'logger' | 'metrics'> & { readonly pool: Pool }): {
  readonly look: () => Promise<void>;
  readonly close: () => Promise<void>;
} {
  const count = observeSchemaDifferences(metrics);
  let logged = '';
  let looking: Promise<void> = Promise.resolve();

  async function look(): Promise<void> {
    if (!(await isMigrated(pool, schema))) return;
    const differences = await lastingDifferences(pool);
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

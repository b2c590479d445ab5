import type { Pool, QueryResultRow } from 'pg';

/** The projector makes the tables at its first start. Before that they count as empty. */
const isNotThereYet = (error: unknown): boolean =>
  ['42P01', '3F000'].includes(String((error as { code?: unknown }).code));

export async function rowsOf<Row extends QueryResultRow>(
  pool: Pool,
  text: string,
  values: readonly unknown[],
): Promise<readonly Row[]> {
  try {
    return (await pool.query<Row>(text, [...values])).rows;
  } catch (error) {
    if (isNotThereYet(error)) return [];
    throw error;
  }
}

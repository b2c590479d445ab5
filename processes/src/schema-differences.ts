import { describeSchemas } from '@token-vault/postgres';
import { projections, readProjectionStatus } from '@token-vault/projectors';
import { liveSchema } from '@token-vault/contracts';
import type pg from 'pg';
import expected from './expected-schema.json' with { type: 'json' };

type Database = Pick<pg.ClientBase, 'query'>;

/** `<kind> <schema>.<rest>`, of the kinds that describe a relation. */
const schemaOf = (line: string): string | undefined => /^relation ([a-z_]+)\./.exec(line)?.[1];

/** The schemas that the migrations and the projections of this release make. */
const schemas: readonly string[] = [...new Set(expected.flatMap((line) => schemaOf(line) ?? []))];

const isOf = (line: string, schema: string): boolean => line.includes(` ${schema}.`);

/** Read models that are not of this release: its projectors replace them. */
async function olderReadModels(database: Database): Promise<string[]> {
  const versions = new Map(
    (await readProjectionStatus(database)).map(({ name, version }) => [name, version]),
  );
  return projections
    .filter(({ name, version }) => versions.get(name) !== version)
    .map(({ name }) => liveSchema(name));
}

/**
 * What in the schemas of the vault is not as this release makes it. With a view in place of a table, a rule, a policy, a trigger or a function of
 * its own the database can answer those who decide otherwise than `audit verify` (ADR 20).
 */
export async function findSchemaDifferences(database: Database): Promise<string[]> {
  const older = await olderReadModels(database);
  const isCompared = (line: string) => older.every((schema) => !isOf(line, schema));
  const found = new Set((await describeSchemas(database, schemas)).filter(isCompared));
  const wanted = new Set(expected.filter(isCompared));
  return [
    ...[...found].filter((line) => !wanted.has(line)).map((line) => `is not of this release: ${line}`),
    ...[...wanted].filter((line) => !found.has(line)).map((line) => `is missing: ${line}`),
  ];
}

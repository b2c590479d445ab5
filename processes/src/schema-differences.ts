import { describeSchemas } from '@token-vault/postgres';
import { projections, readProjectionStatus } from '@token-vault/projectors';
import { isReadModelName, liveSchema } from '@token-vault/contracts';
import type pg from 'pg';
import expectedBySchema from './expected-schema.json' with { type: 'json' };

type Database = Pick<pg.ClientBase, 'query'>;

/** The objects of each schema that the migrations and the projections of this release make. */
const expected = Object.entries(expectedBySchema);

export interface SchemaComparison {
  /** Read models of an older version. Their own schemas are not compared: the projectors of this release replace them. */
  readonly older: readonly string[];
  /** All other differences. */
  readonly differences: readonly string[];
}

interface ReadModelVersions {
  readonly older: readonly string[];
  readonly olderSchemas: ReadonlySet<string | null>;
  readonly wrong: readonly string[];
}

/** `projections.checkpoint` tells the versions. Who can write the database can write them, so each other version is told. */
async function compareVersions(database: Database): Promise<ReadModelVersions> {
  const versions = new Map(
    (await readProjectionStatus(database)).map(({ name, version }) => [name, version]),
  );
  const others = projections.flatMap(({ name, version: made }) => {
    const version = versions.get(name);
    if (version === made) return [];
    const told = version === undefined ? 'not in projections.checkpoint' : `of version ${version}`;
    const isNewer = version !== undefined && version > made;
    const remedy = isNewer
      ? 'a newer release makes it, or another program wrote its version'
      : 'its projectors replace it, then verify again';
    const line = `the read model ${name} is ${told}, this release makes ${made}: ${remedy}`;
    return [{ name, line, isOlder: version !== undefined && !isNewer }];
  });
  const older = others.filter(({ isOlder }) => isOlder);
  return {
    older: older.map(({ line }) => line),
    olderSchemas: new Set(older.map(({ name }) => liveSchema(name))),
    wrong: [
      ...others.filter(({ isOlder }) => !isOlder).map(({ line }) => line),
      ...unknownOf([...versions.keys()]),
    ],
  };
}

const unknownOf = (names: readonly string[]): string[] =>
  names
    .filter((name) => !isReadModelName(name))
    .map(
      (name) =>
        `projections.checkpoint has a row ${JSON.stringify(name)}, and this release has no such read model: a newer release makes it, or another program wrote the row`,
    );

/**
 * The differences between the schemas of the vault and those that this release makes. With a planted view, rule, policy, trigger or function,
 * the database can give the services other rows than `audit verify` (ADR 20).
 */
export async function compareSchemas(database: Database): Promise<SchemaComparison> {
  const { older, olderSchemas, wrong } = await compareVersions(database);
  const objects = await describeSchemas(
    database,
    expected.map(([schema]) => schema),
  );
  const found = new Set(objects.filter(({ schema }) => !olderSchemas.has(schema)).map(({ line }) => line));
  const wanted = new Set(
    expected.filter(([schema]) => !olderSchemas.has(schema)).flatMap(([, lines]) => lines),
  );
  const differences = [
    ...wrong,
    ...[...found].filter((line) => !wanted.has(line)).map((line) => `is not of this release: ${line}`),
    ...[...wanted].filter((line) => !found.has(line)).map((line) => `is missing: ${line}`),
  ];
  return { older, differences };
}

/** All that `audit verify` tells: also the read models of an older version. */
export async function findSchemaDifferences(database: Database): Promise<string[]> {
  const { older, differences } = await compareSchemas(database);
  return [...older, ...differences];
}

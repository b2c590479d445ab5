import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import type { TestVault } from './vault.ts';

export interface Database {
  readonly query: <Row extends pg.QueryResultRow = pg.QueryResultRow>(
    text: string,
    values?: readonly unknown[],
  ) => Promise<pg.QueryResult<Row>>;
}

/** A connection to the database of the vault, for the tests of the file. Triggers are disabled: an attacker who can write can do that too. */
export function useDatabase(vault: TestVault): Database {
  let client: pg.Client;
  beforeAll(async () => {
    client = new pg.Client(await vault.process().databaseUrl());
    await client.connect();
    await client.query('set session_replication_role = replica');
  });
  afterAll(() => client.end());
  return { query: (text, values) => client.query(text, values && [...values]) };
}

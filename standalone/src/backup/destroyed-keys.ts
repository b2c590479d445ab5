import pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import type { Bundle } from './bundle-reader.ts';
import { linesOf, without } from './lines.ts';

/** A data key that was there when the log was backed up and is no more. */
export interface MissingKey {
  readonly keyId: string;
  readonly tenantId: string;
  readonly entity: string;
}

/** The data keys of a backup that the database has no more, in rising order of their ids; memory stays flat. */
export async function* missingKeys(log: Bundle, url: string): AsyncGenerator<readonly MissingKey[], void> {
  const client = new pg.Client({ connectionString: url, application_name: 'vault backup' });
  client.on('error', () => {});
  await client.connect();
  try {
    const present = client.query(copyTo('copy (select id from key_ring.data_key order by id) to stdout'));
    for await (const lines of without(log.rows('data-key-ids'), linesOf(present))) yield lines.map(keyIn);
  } finally {
    await client.end().catch(() => undefined);
  }
}

function keyIn(line: string): MissingKey {
  const [keyId = '', tenantId = '', entity = ''] = line.split('\t');
  return { keyId, tenantId, entity };
}

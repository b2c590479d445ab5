import pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import type { Bundle } from './bundle-reader.ts';
import { linesOf, without } from './lines.ts';

/** A data key that existed when the log was backed up and does not exist now. */
export interface MissingKey {
  readonly keyId: string;
  readonly tenantId: string;
  readonly entity: string;
}

/** The data keys of a backup that the database no longer has, ascending by id. Memory use is constant. */
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

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import type { Projection } from '../src/projection.ts';
import { projections } from '../src/projections/index.ts';

/**
 * Digests of tables by `<name>.v<version>`. They are frozen as event fixtures are: a changed table gets a new line.
 */
const frozen = JSON.parse(
  readFileSync(path.join(import.meta.dirname, 'fixtures/tables.json'), 'utf8'),
) as unknown;

const digestOf = ({ tables, ddl }: Projection): string =>
  createHash('sha256')
    .update(JSON.stringify({ tables, ddl: ddl?.('any_schema') }).replaceAll('any_schema.', ''))
    .digest('hex')
    .slice(0, 16);

// A running vault rebuilds a projection only when its version is raised.
it('a projection whose tables have changed has a new version', () => {
  const present = projections.map((each) => [`${each.name}.v${each.version}`, digestOf(each)]);
  // When this fails: raise the version of the projection and add a line.
  expect(frozen).toMatchObject(Object.fromEntries(present));
});

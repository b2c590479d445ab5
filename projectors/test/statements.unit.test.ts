import { expect, it } from 'vitest';
import { tokens } from '../src/projections/index.ts';
import type { Row, SqlOp } from '../src/projection.ts';
import { BatchFold } from '../src/runner/fold.ts';
import { compile } from '../src/runner/statements.ts';

const megabyte = 'x'.repeat(1_000_000);
const ids = Array.from({ length: 40 }, (_, index) => `t${index}`);

// The rows of one statement are one text of JSON. The tokens of a large transaction are more than V8 may have in a text.
it.each<[SqlOp['kind'], (id: string) => SqlOp]>([
  ['insert', (id) => ({ kind: 'insert', table: 'token', row: { id, tenant_id: 't', mask: megabyte } })],
  [
    'update',
    (id) => ({ kind: 'update', table: 'token', key: { id, tenant_id: 't' }, set: { mask: megabyte } }),
  ],
])('large rows of many an %s are sent by several statements, each row once', (_kind, opOf) => {
  const fold = new BatchFold(tokens);
  for (const id of ids) fold.add(opOf(id));
  const texts = compile(fold.steps()).map(({ values: [rows] }) => String(rows));
  expect(texts).toHaveLength(3);
  expect(Math.max(...texts.map(({ length }) => length))).toBeLessThan(18_000_000);
  expect(texts.flatMap((text) => (JSON.parse(text) as Row[]).map(({ id }) => id))).toEqual(ids);
});

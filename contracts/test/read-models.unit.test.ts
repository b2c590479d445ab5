import { describe, expect, it } from 'vitest';
import { aliased, tableOf } from '../src/index.ts';

describe('the names of a table for SQL', () => {
  const t = aliased('tokens', 'token', 't');

  it('are those of the live read model, with the alias', () => {
    expect(`select ${t.id}, ${t.expires_at} from ${t.source}`).toBe(
      'select t.id, t.expires_at from rm_tokens.token as t',
    );
    expect(Object.keys(t)).toEqual(['source', ...Object.keys(tableOf('tokens', 'token').columns)]);
  });

  it('do not compile when the projection has no such column or table', () => {
    // @ts-expect-error a column that the table does not have
    expect(t.expiry).toBeUndefined();
    // @ts-expect-error a table that the read model does not have
    expect(() => aliased('tokens', 'tokens', 't')).toThrow(TypeError);
  });
});

import { describe, expect, it } from 'vitest';
import { ValidationError } from '@token-vault/contracts';
import { parseQuery } from '../src/tokens/search/parser.ts';
import { searchLimits, type SearchQuery } from '../src/tokens/search/query.ts';

/** A parsed query in Lisp notation. */
function written(query: SearchQuery): string {
  switch (query.kind) {
    case 'everything':
      return 'everything';
    case 'all-of':
      return `(and ${query.of.map(written).join(' ')})`;
    case 'any-of':
      return `(or ${query.of.map(written).join(' ')})`;
    case 'not':
      return `(not ${written(query.of)})`;
    case 'data':
      return `data=${query.value.expose()}`;
    case 'text':
      return `${query.field}=${query.value}`;
    case 'metadata':
      return `metadata[${query.key}]=${query.value}`;
    case 'moment':
      return `${query.field}=${query.within.from?.toISOString() ?? '*'}..${query.within.before?.toISOString() ?? '*'}`;
  }
}

describe('a search query', () => {
  it.each([
    ['', 'everything'],
    ['  \n', 'everything'],
    ['id:a', 'id=a'],
    ['id:a:b', 'id=a:b'],
    ['id:-a', 'id=-a'],
    ['id:a-b!c', 'id=a-b!c'],
    ['data:"4242 4242"', 'data=4242 4242'],
    ['data:"say \\"hi\\""', 'data=say "hi"'],
    ['data:a\\ b\\)', 'data=a b)'],
    ['data:AND', 'data=AND'],
    ['data:""', 'data='],
    ['metadata.color:blue', 'metadata[color]=blue'],
    ['metadata.a.b:c', 'metadata[a.b]=c'],
    ['metadata.first\\ name\\::x', 'metadata[first name:]=x'],
    ['container:"/pci/*"', 'container=/pci/*'],
    ['id:a AND id:b OR id:c AND id:d', '(or (and id=a id=b) (and id=c id=d))'],
    ['id:a && id:b || id:c', '(or (and id=a id=b) id=c)'],
    ['id:a AND (id:b OR id:c)', '(and id=a (or id=b id=c))'],
    ['(((id:a)))', 'id=a'],
    ['NOT id:a', '(not id=a)'],
    ['!id:a', '(not id=a)'],
    ['-id:a', '(not id=a)'],
    ['NOT NOT id:a', '(not (not id=a))'],
    ['-(id:a OR id:b)', '(not (or id=a id=b))'],
    ['id:a AND NOT id:b', '(and id=a (not id=b))'],
    ['id:a OR NOT id:b', '(or id=a (not id=b))'],
    ['id:a id:b', '(or id=a id=b)'],
    ['id:a -id:b', '(and id=a (not id=b))'],
    ['-id:a id:b id:c', '(and (or id=b id=c) (not id=a))'],
    ['-id:a -id:b', '(and (not id=a) (not id=b))'],
    ['created_at:2030-01-01', 'created_at=2030-01-01T00:00:00.000Z..2030-01-02T00:00:00.000Z'],
    [
      'created_at:"2030-01-01T10:00:00+02:00"',
      'created_at=2030-01-01T08:00:00.000Z..2030-01-01T08:00:00.001Z',
    ],
    ['created_at:2030-01-01T10:00', 'created_at=2030-01-01T10:00:00.000Z..2030-01-01T10:00:00.001Z'],
    [
      'created_at:[2030-01-01 TO 2030-01-31]',
      'created_at=2030-01-01T00:00:00.000Z..2030-02-01T00:00:00.000Z',
    ],
    [
      'created_at:{2030-01-01 TO 2030-01-31}',
      'created_at=2030-01-02T00:00:00.000Z..2030-01-31T00:00:00.000Z',
    ],
    ['created_at:[2030-01-01T00:00:00Z TO *}', 'created_at=2030-01-01T00:00:00.000Z..*'],
    ['modified_at:{* TO "2030-01-01T00:00:00Z"]', 'modified_at=*..2030-01-01T00:00:00.001Z'],
    ['modified_at:[* TO *]', 'modified_at=*..*'],
  ])('%j means %s', (query, meaning) => {
    expect(written(parseQuery(query))).toBe(meaning);
  });

  it.each([
    'a',
    '"a"',
    ':a',
    'id:',
    'id: a',
    'name:a',
    'metadata.:a',
    'metadata:a',
    'constructor:a',
    'id:"a',
    'id:a AND',
    'AND id:a',
    'id:a OR OR id:b',
    'NOT',
    '()',
    '(id:a',
    'id:a)',
    'id:a (',
    'id:[a TO b]',
    'created_at:yesterday',
    'created_at:*',
    'created_at:2030-02-30',
    'created_at:2030-02-30T00:00:00Z',
    'created_at:2030-13-01',
    'created_at:2030-01-01T25:00:00Z',
    'created_at:[2030-01-01]',
    'created_at:[2030-01-01 TO 2030-01-02',
    'created_at:[2030-01-01 TO x]',
    'created_at:[ TO ]',
  ])('%j is refused', (query) => {
    expect(() => parseQuery(query)).toThrow(ValidationError);
    expect(() => parseQuery(query)).toThrow(
      expect.objectContaining({ errors: { query: [expect.any(String)] } }),
    );
  });

  it('is bounded in depth and in terms', () => {
    const deep = (levels: number) => `${'('.repeat(levels)}id:a${')'.repeat(levels)}`;
    expect(written(parseQuery(deep(searchLimits.depth)))).toBe('id=a');
    expect(() => parseQuery(deep(searchLimits.depth + 1))).toThrow(ValidationError);
    expect(() => parseQuery(`${'-'.repeat(500)}id:a`)).toThrow(ValidationError);
    const long = (terms: number) => Array.from({ length: terms }, () => 'id:a').join(' ');
    expect(parseQuery(long(searchLimits.terms)).kind).toBe('any-of');
    expect(() => parseQuery(long(searchLimits.terms + 1))).toThrow(ValidationError);
  });

  it('is not quoted by its error', () => {
    const secretive = 'data:4242424242424242 OR';
    try {
      parseQuery(secretive);
      expect.unreachable();
    } catch (error) {
      expect(JSON.stringify([error, String(error), (error as ValidationError).errors])).not.toContain('4242');
    }
  });
});

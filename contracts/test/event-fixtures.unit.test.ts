import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { defineEvent, eventDefinitions, eventHistory, type EventDefinition } from '../src/index.ts';
import { problemsOf, readFixtures, type Fixture } from './event-fixtures.ts';

const fixtures = readFixtures();
const history = eventHistory.flat();

it('every event that was ever released is known, has its frozen fixture, and reads as the present schema says', () => {
  expect(fixtures.size).toBeGreaterThan(40);
  expect(problemsOf(eventDefinitions, fixtures, history)).toEqual([]);
});

it('the history names each schema once', () => {
  expect(new Set(history).size).toBe(history.length);
});

describe('this check', () => {
  const first = defineEvent('Tried', z.object({ name: z.string() }));
  const second = defineEvent('Tried', z.object({ names: z.array(z.string()) }), [
    ({ name }) => ({ names: [name ?? null] }),
  ]);
  const { metadata } = fixtures.get('TenantDeleted.v1') as Fixture;
  const written = new Map<string, Fixture>([
    ['Tried.v1', { type: 'Tried', version: 1, data: { name: 'Jo' }, metadata }],
    ['Tried.v2', { type: 'Tried', version: 2, data: { names: ['Jo', 'Al'] }, metadata }],
  ]);
  const both = ['Tried.v1', 'Tried.v2'];
  const without = (name: string) => new Map([...written].filter(([each]) => each !== name));
  const problems = (definition: EventDefinition, files = written, names = both) =>
    problemsOf([definition], files, names);

  it('passes a version that is led to by an upcaster', () => {
    expect(problems(second)).toEqual([]);
  });

  it.each<[string, string[], string[]]>([
    ['a version without a fixture', problems(second, without('Tried.v2')), ['Tried.v2 has no fixture']],
    ['a former version without one', problems(second, without('Tried.v1')), ['Tried.v1 has no fixture']],
    [
      'a version that is not in the history',
      problems(second, written, ['Tried.v1']),
      ['Tried.v2 is not in the history'],
    ],
    [
      'a version that was taken back',
      problems(first),
      [
        'Tried.v2 was released and is not known',
        'Tried.v2: event Tried version 2 is not known to this version of the vault',
      ],
    ],
    [
      'a schema that was changed in place',
      problems(defineEvent('Tried', z.object({ name: z.string(), age: z.int() })), without('Tried.v2'), [
        'Tried.v1',
      ]),
      ['Tried.v1: event Tried is invalid at data.age'],
    ],
    [
      'a field that was taken out in place',
      problems(defineEvent('Tried', z.object({})), without('Tried.v2'), ['Tried.v1']),
      ['Tried.v1: the present schema loses a part of it'],
    ],
    [
      'an upcaster that does not lead to the present shape',
      problems(defineEvent('Tried', second.schema, [(data) => data])),
      ['Tried.v1: event Tried is invalid at data.names'],
    ],
    [
      'a file under another name',
      problems(first, new Map([['Tried.v1', written.get('Tried.v2') as Fixture]]), ['Tried.v1']),
      ['Tried.v1 holds Tried.v2'],
    ],
  ])('finds %s', (_name, found, told) => {
    expect(found).toEqual(told);
  });
});

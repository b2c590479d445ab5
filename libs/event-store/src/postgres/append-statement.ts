import type pg from 'pg';
import type { AppendRequest } from '../append-request.ts';
import {
  KeysNotStoredError,
  RevisionConflictError,
  type AppendResult,
  type ExpectedRevision,
  type Position,
} from '../port.ts';
import { textValues } from './connection.ts';

/** The result of one append of a batch. */
export type AppendOutcome = AppendResult | Error;

export type AppendRow = [isStored: 't' | 'f', lastPosition: string | null, lastRevision: string];

const appendStatement = {
  name: 'event_store_append',
  text: 'select is_stored, last_position, last_revision from event_store.append_events($1, $2, $3, $4, $5, $6, $7, $8, $9)',
};

/**
 * Appends no event and returns no row unless all keys ($10) are stored. A key that this statement sees was committed before, so the WAL of
 * the key is flushed with that of the append at the latest. The scalar subquery is one index look-up for each key, because Postgres cannot
 * turn it into a join.
 */
const keyedAppendStatement = (keyTable: string) => ({
  name: 'event_store_append_keyed',
  text: `with allowed as materialized (
  select $2::integer[] as expected where not exists (
    select from unnest($10::uuid[]) as k (id)
    where (select d.id from ${keyTable} d where d.id = k.id) is null)
)
select e.is_stored, e.last_position, e.last_revision
from allowed a cross join lateral event_store.append_events($1, a.expected, $3, $4, $5, $6, $7, $8, $9) e`,
});

const expectationCodes = { 'no-stream': -1, any: -2, exists: -3 };

function expectationCode(expected: ExpectedRevision): number {
  return typeof expected === 'number' ? expected : expectationCodes[expected];
}

export type AppendQuery = (requests: readonly AppendRequest[]) => pg.QueryArrayConfig<string[]>;

/** The query that appends. Without `keyTable`, keys are durable by their own commits. */
export function createAppendQuery(keyTable: string | undefined): AppendQuery {
  const answer = { rowMode: 'array', types: textValues } as const;
  const keyedStatement = keyTable === undefined ? undefined : keyedAppendStatement(keyTable);
  return (requests) => {
    const values = appendParameters(requests);
    const keys = keyedStatement ? requests.flatMap((request) => request.keys) : [];
    if (!keyedStatement || keys.length === 0) return { ...appendStatement, ...answer, values };
    return { ...keyedStatement, ...answer, values: [...values, plainArray(keys)] };
  };
}

/** The array parameters of `append_events`. */
function appendParameters(requests: readonly AppendRequest[]): string[] {
  const events = requests.flatMap((request) => request.events);
  const owners = requests.flatMap((request, index) => request.events.map(() => index + 1));
  return [
    textArray(requests.map((request) => request.stream)),
    plainArray(requests.map((request) => expectationCode(request.expected))),
    plainArray(requests.map((request) => request.events.length)),
    plainArray(owners),
    plainArray(events.map((event) => event.id)),
    textArray(events.map((event) => event.type)),
    plainArray(events.map((event) => event.version)),
    textArray(events.map((event) => event.data)),
    textArray(events.map((event) => event.metadata)),
  ];
}

/** A Postgres array of values that need no quotes. */
function plainArray(values: readonly (string | number)[]): string {
  return `{${values.join(',')}}`;
}

/**
 * A Postgres array of texts without control characters (JSON, or a checked name). In such texts JSON.stringify escapes only quotes and
 * backslashes, in the way that an array element needs; several times faster than our own code.
 */
function textArray(values: readonly string[]): string {
  return `{${values.map((value) => JSON.stringify(value)).join(',')}}`;
}

export function outcomesOf(requests: readonly AppendRequest[], rows: readonly AppendRow[]): AppendOutcome[] {
  if (rows.length === 0) return requests.map(() => new KeysNotStoredError());
  return requests.map((request, index) => outcomeOf(request, rows[index]));
}

function outcomeOf(request: AppendRequest, row: AppendRow | undefined): AppendOutcome {
  if (!row) return new Error('append_events answered with too few rows');
  const [isStored, lastPosition, lastRevision] = row;
  if (isStored === 't') return { position: lastPosition as Position, revision: Number(lastRevision) };
  return new RevisionConflictError(request.stream, request.expected, Number(lastRevision));
}

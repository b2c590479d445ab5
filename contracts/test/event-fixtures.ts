import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { EventRegistry, type EventDefinition, type EventMetadata, type JsonObject } from '../src/index.ts';

/** A stored event. */
export interface Fixture {
  readonly type: string;
  readonly version: number;
  readonly data: JsonObject;
  readonly metadata: EventMetadata;
}

const folder = path.join(import.meta.dirname, 'fixtures/events');

/** Fixtures by file name without `.json`. */
export function readFixtures(): Map<string, Fixture> {
  return new Map(
    readdirSync(folder).map((file) => [
      file.replace(/\.json$/, ''),
      JSON.parse(readFileSync(path.join(folder, file), 'utf8')) as Fixture,
    ]),
  );
}

const versionsOf = ({ type, version }: EventDefinition): string[] =>
  Array.from({ length: version }, (_, index) => `${type}.v${index + 1}`);

function problemOf(registry: EventRegistry, name: string, fixture: Fixture): string | undefined {
  const { type, version, data, metadata } = fixture;
  if (name !== `${type}.v${version}`) return `${name} holds ${type}.v${version}`;
  try {
    const present = registry.upcast(type, version, data);
    registry.validate({ id: '', type, ...present, metadata });
    const schema = registry.definitions.find((definition) => definition.type === type)?.schema;
    // A schema that drops a field would lose stored data without an error.
    if (JSON.stringify(sorted(schema?.parse(present.data))) !== JSON.stringify(sorted(present.data)))
      return `${name}: the present schema loses a part of it`;
    return undefined;
  } catch (error) {
    return `${name}: ${(error as Error).message}`;
  }
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([key, each]) => [key, sorted(each)]));
}

/** The differences between the events that this release knows and all events that were ever written. */
export function problemsOf(
  definitions: readonly EventDefinition[],
  fixtures: ReadonlyMap<string, Fixture>,
  history: readonly string[],
): string[] {
  const registry = new EventRegistry(definitions);
  const known = definitions.flatMap(versionsOf);
  return [
    ...known.filter((name) => !fixtures.has(name)).map((name) => `${name} has no fixture`),
    ...known.filter((name) => !history.includes(name)).map((name) => `${name} is not in the history`),
    ...history.filter((name) => !known.includes(name)).map((name) => `${name} was released and is not known`),
    ...[...fixtures]
      .map(([name, fixture]) => problemOf(registry, name, fixture))
      .filter((each) => each !== undefined),
  ];
}

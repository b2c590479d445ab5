import type { z } from 'zod';
import type { JsonObject } from '../json.ts';
import { eventMetadata, type EventMetadata } from '../metadata.ts';

/** An event that is not stored yet. `id` is a UUID; it is deterministic when the command is a repeat. */
export interface NewEvent<Type extends string = string, Data = JsonObject> {
  readonly id: string;
  readonly type: Type;
  readonly version: number;
  readonly data: Data;
  readonly metadata: EventMetadata;
}

/** Converts the data of one schema version to the next version. */
export type Upcaster = (data: JsonObject) => JsonObject;

/** The upcaster for a version that only allows more than the version before. */
export const unchanged: Upcaster = (data) => data;

export interface EventDefinition<Type extends string = string, Schema extends z.ZodType = z.ZodType> {
  readonly type: Type;
  readonly version: number;
  readonly schema: Schema;
  /** `upcasters[0]` converts version 1 to 2, and so on. The length is always `version - 1`. */
  readonly upcasters: readonly Upcaster[];
}

/** The types of a list of definitions. */
export type TypeIn<Definitions extends readonly { readonly type: string }[]> = Definitions[number]['type'];

export type EventOf<D> =
  D extends EventDefinition<infer Type, infer Schema> ? NewEvent<Type, z.infer<Schema>> : never;

/** Defines an event: name, version, schema and (by inference) type. */
export function defineEvent<const Type extends string, Schema extends z.ZodType>(
  type: Type,
  schema: Schema,
  upcasters: readonly Upcaster[] = [],
): EventDefinition<Type, Schema> {
  return { type, version: upcasters.length + 1, schema, upcasters };
}

/** This release does not know the type or the version of a stored event. The reader must stop. */
export class UnknownEventError extends Error {
  readonly code = 'unknown_event';
  constructor(type: string, version: number) {
    super(`event ${type} version ${version} is not known to this version of the vault`);
  }
}

/** The data of an event does not match its schema. The message names paths, never values. */
export class InvalidEventError extends Error {
  readonly code = 'invalid_event';
  constructor(type: string, paths: readonly string[]) {
    super(`event ${type} is invalid at ${paths.join(', ')}`);
  }
}

export class EventRegistry {
  readonly #definitions: ReadonlyMap<string, EventDefinition>;

  constructor(definitions: readonly EventDefinition[]) {
    this.#definitions = new Map(definitions.map((definition) => [definition.type, definition]));
    if (this.#definitions.size !== definitions.length) throw new Error('an event type is defined twice');
  }

  get definitions(): readonly EventDefinition[] {
    return [...this.#definitions.values()];
  }

  /** The current version of an event type. @throws UnknownEventError */
  versionOf(type: string): number {
    const definition = this.#definitions.get(type);
    if (!definition) throw new UnknownEventError(type, 0);
    return definition.version;
  }

  /** Checks an event against its current schema before it is appended. @throws InvalidEventError */
  validate(event: NewEvent<string, unknown>): void {
    const definition = this.#definitions.get(event.type);
    if (definition?.version !== event.version) throw new UnknownEventError(event.type, event.version);
    const data = definition.schema.safeParse(event.data);
    const metadata = eventMetadata.safeParse(event.metadata);
    const issues = [
      ...(data.error?.issues ?? []).map((issue) => `data.${issue.path.join('.')}`),
      ...(metadata.error?.issues ?? []).map((issue) => `metadata.${issue.path.join('.')}`),
    ];
    if (issues.length > 0) throw new InvalidEventError(event.type, issues);
  }

  /** Converts stored data to the current version. @throws UnknownEventError for a type or version of a later release */
  upcast(type: string, version: number, data: JsonObject): { version: number; data: JsonObject } {
    const definition = this.#definitions.get(type);
    if (!definition || version > definition.version || version < 1)
      throw new UnknownEventError(type, version);
    if (version === definition.version) return { version, data };
    const current = definition.upcasters.slice(version - 1).reduce((older, upcast) => upcast(older), data);
    return { version: definition.version, data: current };
  }
}

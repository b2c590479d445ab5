import { fieldLimits, type Json, type Operation } from '@token-vault/contracts';

/** A request before it is sent, for every entrance. */
export interface Draft {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly body?: Json;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent unchanged in place of the body. */
  readonly text?: string;
  /** Appended to the path unchanged. */
  readonly suffix?: string;
}

/** A number as text or, in JSON, as a number. */
export type Written = string | number;

/** A place of a request where a caller can write any text. */
export interface Place {
  /** `path.id`, `query.metadata.* name`, `body.rules[].container`, `header.svc-trace-id`. */
  readonly name: string;
  readonly put: (draft: Draft, text: Written) => Draft;
  /** True when only HTTP has this place. */
  readonly isHttpOnly?: boolean;
}

type Step = string | number;
/** The schema class of zod. */
type Schema = NonNullable<Operation['body']>;
type Definition = Schema['def'] & {
  readonly innerType?: Schema;
  readonly in?: Schema;
  readonly out?: Schema;
  readonly element?: Schema;
  readonly valueType?: Schema;
  readonly shape?: Readonly<Record<string, Schema>>;
};

/** The inner schema of an optional, nullable or converted one. */
function bare(schema: Schema): Schema {
  const { type, innerType, in: first, out } = schema.def as Definition;
  if (innerType) return bare(innerType);
  if (type !== 'pipe' || !first || !out) return schema;
  return bare(first.def.type === 'transform' ? out : first);
}

const isObject = (value: Json | undefined): value is { [name: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A copy of `root` with `value` at a path. Missing parts of the path are made. */
function withAt(root: Json | undefined, [step, ...rest]: readonly Step[], value: Json): Json {
  if (step === undefined) return value;
  if (typeof step === 'number') {
    const list = Array.isArray(root) ? [...root] : [];
    list[step] = withAt(list[step], rest, value);
    return list;
  }
  const object = isObject(root) ? root : {};
  return { ...object, [step]: withAt(object[step], rest, value) };
}

const inBody =
  (path: readonly Step[]): Place['put'] =>
  (draft, text) => ({ ...draft, body: withAt(draft.body, path, text) });

/** The property name is a canary, and its value too. */
const nameInBody =
  (path: readonly Step[]): Place['put'] =>
  (draft, text) => ({ ...draft, body: withAt(draft.body, [...path, String(text)], 'x') });

function* bodyPlaces(schema: Schema, name: string, path: readonly Step[]): Generator<Place> {
  const it = bare(schema);
  const { type, shape = {}, element, valueType } = it.def as Definition;
  if (type === 'object') {
    for (const [field, child] of Object.entries(shape))
      yield* bodyPlaces(child, `${name}.${field}`, [...path, field]);
    yield { name: `${name}.(unknown)`, put: inBody([...path, 'unknown_field']) };
    yield { name: `${name}.(unknown) name`, put: nameInBody(path) };
  } else if (type === 'record' && valueType) {
    yield* bodyPlaces(valueType, `${name}.*`, [...path, 'some-key']);
    yield { name: `${name}.* name`, put: nameInBody(path) };
  } else if (type === 'array' && element) {
    yield* bodyPlaces(element, `${name}[]`, [...path, 0]);
    yield { name, put: inBody(path) };
  } else {
    yield { name, put: inBody(path) };
    // Any JSON: its values, and its property names.
    if (type !== 'custom') return;
    yield { name: `${name}.within`, put: inBody([...path, 'within', 0]) };
    yield { name: `${name}.within name`, put: nameInBody(path) };
  }
}

const inQuery =
  (field: string): Place['put'] =>
  (draft, text) => ({ ...draft, query: { ...draft.query, [field]: String(text) } });
const nameInQuery =
  (prefix: string): Place['put'] =>
  (draft, text) => ({ ...draft, query: { ...draft.query, [`${prefix}${String(text)}`]: 'x' } });

function* queryPlaces(schema: Schema | undefined): Generator<Place> {
  const it = schema && bare(schema);
  for (const field of Object.keys((it?.def as Definition | undefined)?.shape ?? {}))
    yield { name: `query.${field}`, put: inQuery(field) };
  const prefix = it && fieldLimits.get(it)?.namePrefix;
  if (prefix !== undefined) {
    yield { name: `query.${prefix}*`, put: inQuery(`${prefix}some-key`) };
    yield { name: `query.${prefix}* name`, put: nameInQuery(prefix) };
  }
  yield { name: 'query.(unknown)', put: inQuery('unknown_parameter') };
  yield { name: 'query.(unknown) name', put: nameInQuery('') };
}

/** The text around the canary in a header, without which the header would be refused at once. */
const headers: Readonly<Record<string, (text: string) => string>> = {
  'svc-trace-id': (text) => text,
  'svc-idempotency-key': (text) => text,
  'svc-transaction-id': (text) => text,
  'svc-position': (text) => text,
  'svc-api-key': (text) => `key_pvt_${text}`,
  'content-type': (text) => `application/${text}`,
  'content-encoding': (text) => text,
  prefer: (text) => `handling=lenient, wait=${text}`,
  'user-agent': (text) => text,
  'x-forwarded-for': (text) => text,
  'x-request-id': (text) => text,
  'svc-reason': (text) => `for ${text}`,
  traceparent: (text) => `00-${text.padStart(32, '0')}-${text.padStart(16, '0')}-01`,
  tracestate: (text) => `a=${text}`,
  authorization: (text) => `Bearer ${text}`,
  cookie: (text) => `a=${text}`,
  referer: (text) => `https://shop.invalid/${text}`,
};

function* headerPlaces(): Generator<Place> {
  for (const [name, write] of Object.entries(headers))
    yield {
      name: `header.${name}`,
      isHttpOnly: true,
      put: (draft, text) => ({ ...draft, headers: { ...draft.headers, [name]: write(String(text)) } }),
    };
}

function* rawPlaces(operation: Operation): Generator<Place> {
  const cut = (text: Written): string => `{"data": ${JSON.stringify(text)}, "more": [${String(text)}`;
  if (operation.body)
    yield { name: 'body (cut off)', isHttpOnly: true, put: (draft, text) => ({ ...draft, text: cut(text) }) };
  yield {
    name: 'path (unknown)',
    isHttpOnly: true,
    put: (draft, text) => ({ ...draft, suffix: `/${encodeURIComponent(String(text))}` }),
  };
}

/** Every place of a request of this operation, by the operations table. */
export function placesOf(operation: Operation): Place[] {
  const id: Place = { name: 'path.id', put: (draft, text) => ({ ...draft, params: { id: String(text) } }) };
  return [
    ...(operation.path.includes('{id}') ? [id] : []),
    ...queryPlaces(operation.query),
    ...(operation.body ? bodyPlaces(operation.body, 'body', []) : []),
    ...(operation.body ? [{ name: 'body (whole)', put: inBody([]) }] : []),
    ...headerPlaces(),
    ...rawPlaces(operation),
  ];
}

type Log = (fields: object, message: string) => void;

/** How long warnings of a kind that was just written are counted instead of written. */
const windowMs = 30_000;

/** A warning with one of these fields names an entity, so it is never merged with others. */
const names = ['trace_id', 'tenant_id', 'event_id', 'eventId', 'invocation_id', 'reactor_id', 'stream'];

/** Warnings with the same message and the same values of these fields are merged. The other fields (the projection, the attempt, the stack) come from the first and the last warning. */
const alike = ['error_name', 'error_code', 'code', 'reason', 'task', 'component'];

interface Kept {
  last: object;
  count: number;
}

/**
 * Writes the first warning of a kind, counts the others of the next 30 s, and then writes the last of them with their `count`. A lost store
 * made hundreds of equal lines in nine processes. The messages are constant texts, so there are few kinds.
 */
export function mergeWarnings(write: Log): Log {
  const open = new Map<string, Kept>();
  return (fields, message) => {
    const given = fields as Readonly<Record<string, unknown>>;
    if (names.some((name) => given[name] !== undefined)) return write(fields, message);
    const kind = JSON.stringify([message, ...alike.map((name) => given[name] ?? null)]);
    const kept = open.get(kind);
    if (kept) {
      kept.last = fields;
      kept.count += 1;
      return;
    }
    const first: Kept = { last: fields, count: 0 };
    open.set(kind, first);
    write(fields, message);
    setTimeout(() => {
      open.delete(kind);
      if (first.count > 0) write({ ...first.last, count: first.count }, message);
    }, windowMs).unref();
  };
}

/**
 * Triggers that notify `access_changed` when rows that callers are made of change, so that services drop what they have
 * cached of them. Not for insertions: nothing is cached of a key that is not known.
 */
export function accessChangesOf(tables: readonly string[]): readonly string[] {
  return [
    `create function notify_access_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('access_changed', '');
  return null;
end
$$`,
    ...tables.map(
      (table) => `create trigger access_changed after update or delete on ${table}
  for each statement execute function notify_access_changed()`,
    ),
  ];
}

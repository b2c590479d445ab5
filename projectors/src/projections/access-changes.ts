import { temporarySchema } from '../projection.ts';

/**
 * Triggers that notify `access_changed` when a row that authentication reads changes, so that services drop the
 * callers that they cached from it. Insertions do not notify: services cache nothing for an unknown key. The tables of a verification have no
 * readers.
 */
export const accessChangesOf =
  (tables: readonly string[]) =>
  (schema: string): readonly string[] => {
    if (schema === temporarySchema) return [];
    return [
      `create function notify_access_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('access_changed', '');
  return null;
end
$$`,
      ...tables.map(
        (table) => `create trigger access_changed after update or delete on ${table}
  for each statement execute function ${schema}.notify_access_changed()`,
      ),
    ];
  };

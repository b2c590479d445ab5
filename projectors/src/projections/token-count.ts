const changed = (rows: string, factor: 1 | -1): string =>
  `select tenant_id, container, type, ${factor} * count(*) as change from ${rows} group by 1, 2, 3`;

/** Groups are sorted, so that all writers lock the counters of a batch in the same order. */
const count = (changes: string): string => `
  insert into token_count as c (tenant_id, container, type, count)
  select tenant_id, container, type, sum(change) from (${changes}) s
  group by 1, 2, 3 having sum(change) <> 0 order by 1, 2, 3
  on conflict (tenant_id, container, type) do update set count = c.count + excluded.count;`;

/** A counter at 0 is deleted, so that the table depends on the present tokens only, not on their history. */
const forgetEmpty = `
  delete from token_count c using (select distinct tenant_id, container, type from old_rows) o
  where c.tenant_id = o.tenant_id and c.container = o.container and c.type = o.type and c.count = 0;`;

const trigger = (schema: string, operation: string, referencing: string, body: string): string => `
create function count_on_${operation}() returns trigger language plpgsql as $$
begin ${body}
  return null;
end
$$;
create trigger count_on_${operation} after ${operation} on token referencing ${referencing}
  for each statement execute function ${schema}.count_on_${operation}()`;

/**
 * Totals by container and type. Triggers of the statements that change tokens keep them, so they always equal the
 * number of rows.
 */
export const countTokens = (schema: string): readonly string[] => [
  trigger(schema, 'insert', 'new table as new_rows', count(changed('new_rows', 1))),
  trigger(schema, 'delete', 'old table as old_rows', count(changed('old_rows', -1)) + forgetEmpty),
  trigger(
    schema,
    'update',
    'old table as old_rows new table as new_rows',
    count(`${changed('new_rows', 1)} union all ${changed('old_rows', -1)}`) + forgetEmpty,
  ),
];

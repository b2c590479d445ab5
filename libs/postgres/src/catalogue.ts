import type pg from 'pg';

/**
 * What decides how the objects of a schema answer, from the columns of the catalogue alone: versions of Postgres print definitions in different
 * ways. Indexes, statistics, comments and rights are an operator's own affair. `pg_catalog` is named everywhere: a search path may put
 * another schema before it.
 */
const description = `
  with own as (
    select n.oid, n.nspname from pg_catalog.pg_namespace n
    where n.nspname operator(pg_catalog.=) any ($1::pg_catalog.name[])
  ), relation as (
    select c.*, pg_catalog.concat(own.nspname, '.', c.relname) as name
    from pg_catalog.pg_class c join own on own.oid operator(pg_catalog.=) c.relnamespace
    where c.relkind operator(pg_catalog.<>) all (array['i', 'I', 't', 'S', 'c']::pg_catalog."char"[])
  )
  select pg_catalog.concat_ws(' ', 'relation', r.name, r.relkind, r.relpersistence,
      case when r.relrowsecurity then 'with row security' end,
      case when r.relispartition then 'a partition' end,
      case when exists (select from pg_catalog.pg_inherits i
        where r.oid operator(pg_catalog.=) any (array[i.inhrelid, i.inhparent])) then 'inherits' end) as line
    from relation r
  union all
  select pg_catalog.concat_ws(' ', 'column', pg_catalog.concat(r.name, '.', a.attname),
      pg_catalog.format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
      case when a.atthasdef then 'with a default' end, nullif(a.attgenerated::pg_catalog.text, ''),
      nullif(a.attidentity::pg_catalog.text, ''))
    from relation r join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) r.oid
    where a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
  union all
  select pg_catalog.concat_ws(' ', 'trigger', t.tgname, 'on', r.name, t.tgenabled, t.tgtype,
      pg_catalog.concat(n.nspname, '.', f.proname), case when t.tgqual is not null then 'with a condition' end,
      nullif(pg_catalog.encode(t.tgargs, 'hex'), ''))
    from relation r join pg_catalog.pg_trigger t on t.tgrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_proc f on f.oid operator(pg_catalog.=) t.tgfoid
    join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) f.pronamespace
    where not t.tgisinternal or t.tgenabled operator(pg_catalog.<>) 'O'
  union all
  select pg_catalog.concat_ws(' ', 'rule', w.rulename, 'on', r.name, w.ev_type, w.ev_enabled)
    from relation r join pg_catalog.pg_rewrite w on w.ev_class operator(pg_catalog.=) r.oid
  union all
  select pg_catalog.concat_ws(' ', 'policy', p.polname, 'on', r.name)
    from relation r join pg_catalog.pg_policy p on p.polrelid operator(pg_catalog.=) r.oid
  union all
  select pg_catalog.concat_ws(' ', 'function',
      pg_catalog.concat(own.nspname, '.', f.proname, '(', pg_catalog.oidvectortypes(f.proargtypes), ')'),
      'returns', pg_catalog.format_type(f.prorettype, null), l.lanname, f.provolatile,
      case when f.prosecdef then 'security definer' end, f.proconfig::pg_catalog.text,
      pg_catalog.md5(pg_catalog.concat(f.prosrc, f.probin, f.prosqlbody)))
    from own join pg_catalog.pg_proc f on f.pronamespace operator(pg_catalog.=) own.oid
    join pg_catalog.pg_language l on l.oid operator(pg_catalog.=) f.prolang
  union all
  select pg_catalog.concat_ws(' ', 'operator', pg_catalog.concat(own.nspname, '.', o.oprname))
    from own join pg_catalog.pg_operator o on o.oprnamespace operator(pg_catalog.=) own.oid
  union all
  select pg_catalog.concat_ws(' ', 'event trigger', e.evtname, e.evtevent, e.evtenabled)
    from pg_catalog.pg_event_trigger e
  union all
  select pg_catalog.concat_ws(' ', 'setting', setting)
    from pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) as setting
    where s.setdatabase operator(pg_catalog.=) any (array[0::pg_catalog.oid,
        (select d.oid from pg_catalog.pg_database d where d.datname operator(pg_catalog.=) pg_catalog.current_database())])
      and setting operator(pg_catalog.~) '^(search_path|session_replication_role|.*preload_libraries)='`;

/** Describes the objects of the schemas, one a line, sorted, and what holds for the whole database. */
export async function describeSchemas(
  client: Pick<pg.ClientBase, 'query'>,
  schemas: readonly string[],
): Promise<string[]> {
  const { rows } = await client.query<{ line: string }>(description, [schemas]);
  return rows.map(({ line }) => line).toSorted();
}

import type pg from 'pg';

/**
 * What decides how the objects of a schema answer, from the columns of the catalogue: versions of Postgres print definitions in different
 * ways. Only expressions are printed (of defaults, checks and conditions of triggers): Postgres 15 and 18 print those of this release alike.
 * Postgres 18 alone lists "not null" as a constraint ('n'), which columns tell everywhere. Indexes, statistics, comments and rights are an
 * operator's own affair. `pg_catalog` is named everywhere: a search path may put another schema before it.
 */
const description = `
  with own as (
    select n.oid, n.nspname from pg_catalog.pg_namespace n
    where n.nspname operator(pg_catalog.=) any ($1::pg_catalog.name[])
  ), relation as (
    select c.*, own.nspname as schema, pg_catalog.concat(own.nspname, '.', c.relname) as name
    from pg_catalog.pg_class c join own on own.oid operator(pg_catalog.=) c.relnamespace
    where c.relkind operator(pg_catalog.<>) all (array['i', 'I', 't', 'S', 'c']::pg_catalog."char"[])
  )
  select r.schema::pg_catalog.text as schema, pg_catalog.concat_ws(' ', 'relation', r.name, r.relkind, r.relpersistence,
      case when r.relrowsecurity then 'with row security' end,
      case when r.relispartition then 'a partition' end,
      case when exists (select from pg_catalog.pg_inherits i
        where r.oid operator(pg_catalog.=) any (array[i.inhrelid, i.inhparent])) then 'inherits' end) as line
    from relation r
  union all
  select r.schema, pg_catalog.concat_ws(' ', 'column', pg_catalog.concat(r.name, '.', a.attname),
      pg_catalog.format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
      case when a.atthasdef then 'default' end, pg_catalog.pg_get_expr(d.adbin, d.adrelid),
      nullif(a.attgenerated::pg_catalog.text, ''), nullif(a.attidentity::pg_catalog.text, ''))
    from relation r join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) r.oid
    left join pg_catalog.pg_attrdef d
      on d.adrelid operator(pg_catalog.=) r.oid and d.adnum operator(pg_catalog.=) a.attnum
    where a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
  union all
  select r.schema, pg_catalog.concat_ws(' ', 'constraint', k.conname, 'on', r.name, k.contype,
      pg_catalog.array_to_string(array(select a.attname
        from pg_catalog.unnest(k.conkey) with ordinality as key (attnum, place)
        join pg_catalog.pg_attribute a
          on a.attrelid operator(pg_catalog.=) r.oid and a.attnum operator(pg_catalog.=) key.attnum
        order by key.place), ','),
      pg_catalog.pg_get_expr(k.conbin, k.conrelid),
      (select pg_catalog.concat('to ', n.nspname, '.', f.relname, ' ', k.confkey::pg_catalog.text, ' ',
          k.confupdtype, k.confdeltype, k.confmatchtype)
        from pg_catalog.pg_class f join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) f.relnamespace
        where f.oid operator(pg_catalog.=) k.confrelid),
      case when k.condeferrable then 'deferrable' end, case when not k.convalidated then 'not valid' end)
    from relation r join pg_catalog.pg_constraint k on k.conrelid operator(pg_catalog.=) r.oid
    where k.contype operator(pg_catalog.<>) 'n'
  union all
  select r.schema, pg_catalog.concat_ws(' ', 'trigger', t.tgname, 'on', r.name, t.tgenabled, t.tgtype,
      pg_catalog.concat(n.nspname, '.', f.proname), nullif(t.tgattr::pg_catalog.text, ''),
      case when t.tgqual is not null then pg_catalog.concat('when ',
        pg_catalog.substring(pg_catalog.pg_get_triggerdef(t.oid), ' WHEN (.*) EXECUTE FUNCTION ')) end,
      nullif(pg_catalog.encode(t.tgargs, 'hex'), ''))
    from relation r join pg_catalog.pg_trigger t on t.tgrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_proc f on f.oid operator(pg_catalog.=) t.tgfoid
    join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) f.pronamespace
    where not t.tgisinternal or t.tgenabled operator(pg_catalog.<>) 'O'
  union all
  select r.schema, pg_catalog.concat_ws(' ', 'rule', w.rulename, 'on', r.name, w.ev_type, w.ev_enabled)
    from relation r join pg_catalog.pg_rewrite w on w.ev_class operator(pg_catalog.=) r.oid
  union all
  select r.schema, pg_catalog.concat_ws(' ', 'policy', p.polname, 'on', r.name)
    from relation r join pg_catalog.pg_policy p on p.polrelid operator(pg_catalog.=) r.oid
  union all
  select own.nspname, pg_catalog.concat_ws(' ', 'function',
      pg_catalog.concat(own.nspname, '.', f.proname, '(', pg_catalog.oidvectortypes(f.proargtypes), ')'),
      'returns', pg_catalog.format_type(f.prorettype, null), l.lanname, f.provolatile,
      case when f.prosecdef then 'security definer' end, f.proconfig::pg_catalog.text,
      pg_catalog.md5(pg_catalog.concat(f.prosrc, f.probin, f.prosqlbody)))
    from own join pg_catalog.pg_proc f on f.pronamespace operator(pg_catalog.=) own.oid
    join pg_catalog.pg_language l on l.oid operator(pg_catalog.=) f.prolang
  union all
  select own.nspname, pg_catalog.concat_ws(' ', 'operator', pg_catalog.concat(own.nspname, '.', o.oprname))
    from own join pg_catalog.pg_operator o on o.oprnamespace operator(pg_catalog.=) own.oid
  union all
  select null, pg_catalog.concat_ws(' ', 'event trigger', e.evtname, e.evtevent, e.evtenabled)
    from pg_catalog.pg_event_trigger e
  union all
  select null, pg_catalog.concat_ws(' ', 'setting', setting)
    from pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) as setting
    where s.setdatabase operator(pg_catalog.=) any (array[0::pg_catalog.oid,
        (select d.oid from pg_catalog.pg_database d where d.datname operator(pg_catalog.=) pg_catalog.current_database())])
      and setting operator(pg_catalog.~) '^(search_path|session_replication_role|.*preload_libraries)='`;

/** One object of a schema, or what holds for the whole database (`schema` is null). */
export interface SchemaObject {
  readonly schema: string | null;
  readonly line: string;
}

/** Describes the objects of the schemas, sorted by their lines, and what holds for the whole database. */
export async function describeSchemas(
  client: Pick<pg.ClientBase, 'query'>,
  schemas: readonly string[],
): Promise<SchemaObject[]> {
  const { rows } = await client.query<SchemaObject>(description, [schemas]);
  return rows.toSorted((a, b) => (a.line < b.line ? -1 : 1));
}

import type pg from 'pg';

/**
 * The properties of the objects of a schema that decide their answers, from the columns of the catalogue: versions of Postgres print
 * definitions in different ways. Only expressions are printed (of defaults, checks, indexes and conditions of triggers): Postgres 15 and 18 print those of this release
 * alike. Only Postgres 18 lists "not null" as a constraint ('n'). The columns tell it in all versions. A column has its place among those of its table:
 * two columns that exchange their names change no row. `pg_catalog` is named everywhere: a search path may put another schema before it.
 *
 * Statistics, comments and rights are an operator's own affair, and so are indexes that cannot answer otherwise than their table: on columns
 * alone, not unique, with operator classes and collations of Postgres. An index that is being built anew beside another of the same definition is
 * not told. Statements find functions and operators in the schemas of the search path, too, and casts in all. Those of an extension are left out
 * when the role does not own it. A foreign key of a table elsewhere runs the triggers of that table in transactions of the vault. Settings for logs and memory change no answer. Objects that a new database has have ids below 16384.
 */
const description = `
  with own as (
    select n.oid, n.nspname from pg_catalog.pg_namespace n
    where n.nspname operator(pg_catalog.=) any ($1::pg_catalog.name[])
  ), searched as (
    select own.oid, own.nspname from own
    union
    select n.oid, n.nspname from pg_catalog.pg_namespace n
    where n.nspname operator(pg_catalog.=) any (pg_catalog.current_schemas(true)) and n.nspname operator(pg_catalog.<>) 'pg_catalog'
  ), role as (
    select r.oid from pg_catalog.pg_roles r where r.rolname operator(pg_catalog.=) current_user
  ), of_extension as (
    select d.classid, d.objid
    from pg_catalog.pg_depend d join pg_catalog.pg_extension e on e.oid operator(pg_catalog.=) d.refobjid
    where d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass and d.deptype operator(pg_catalog.=) 'e'
      and e.extowner operator(pg_catalog.<>) (select role.oid from role)
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
      pg_catalog.row_number() over (partition by r.oid order by a.attnum),
      pg_catalog.format_type(a.atttypid, a.atttypmod),
      (select pg_catalog.concat('collate ', n.nspname, '.', c.collname)
        from pg_catalog.pg_type t, pg_catalog.pg_collation c
        join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.collnamespace
        where t.oid operator(pg_catalog.=) a.atttypid and c.oid operator(pg_catalog.=) a.attcollation
          and a.attcollation operator(pg_catalog.<>) t.typcollation),
      case when a.attnotnull then 'not null' end,
      case when a.atthasdef then 'default' end, pg_catalog.pg_get_expr(d.adbin, d.adrelid),
      nullif(a.attgenerated::pg_catalog.text, ''), nullif(a.attidentity::pg_catalog.text, ''))
    from relation r join pg_catalog.pg_attribute a on a.attrelid operator(pg_catalog.=) r.oid
    left join pg_catalog.pg_attrdef d
      on d.adrelid operator(pg_catalog.=) r.oid and d.adnum operator(pg_catalog.=) a.attnum
    where a.attnum operator(pg_catalog.>) 0 and not a.attisdropped
  union all
  select i.schema, pg_catalog.concat_ws(' ', i.definition, case when not pg_catalog.bool_or(i.is_used) then 'not valid' end)
    from (
      select r.schema, i.indisvalid and i.indisready and i.indislive as is_used,
        pg_catalog.concat_ws(' ', 'index on', r.name, m.amname, pg_catalog.concat('(', key.list, ')'),
          case when i.indisunique then 'unique' end, case when i.indnullsnotdistinct then 'nulls not distinct' end,
          case when i.indisexclusion then 'exclusion' end, case when not i.indimmediate then 'deferrable' end,
          case when i.indpred is not null then pg_catalog.concat('where ', pg_catalog.pg_get_expr(i.indpred, i.indrelid)) end
        ) as definition
      from relation r join pg_catalog.pg_index i on i.indrelid operator(pg_catalog.=) r.oid
      join pg_catalog.pg_class x on x.oid operator(pg_catalog.=) i.indexrelid
      join pg_catalog.pg_am m on m.oid operator(pg_catalog.=) x.relam,
      lateral (
        select pg_catalog.string_agg(pg_catalog.concat_ws(' ',
              case when place operator(pg_catalog.>) i.indnkeyatts then 'include' end,
              pg_catalog.pg_get_indexdef(i.indexrelid, place, false),
              case when c.oid is not null then pg_catalog.concat('collate ', cn.nspname, '.', c.collname) end,
              case when not (o.opcdefault and kn.nspname operator(pg_catalog.=) 'pg_catalog')
                then pg_catalog.concat(kn.nspname, '.', o.opcname) end,
              case when i.indoption[place operator(pg_catalog.-) 1] operator(pg_catalog.<>) 0
                then pg_catalog.concat('option ', i.indoption[place operator(pg_catalog.-) 1]) end), ', ' order by place) as list,
          pg_catalog.bool_and(coalesce(kn.nspname operator(pg_catalog.=) 'pg_catalog', true)
            and coalesce(cn.nspname operator(pg_catalog.=) 'pg_catalog', true)) as is_of_postgres
        from pg_catalog.unnest(i.indkey) with ordinality as part (attnum, number)
        cross join lateral (select part.number::pg_catalog.int4 as place) as p
        left join pg_catalog.pg_opclass o on o.oid operator(pg_catalog.=) i.indclass[place operator(pg_catalog.-) 1]
        left join pg_catalog.pg_namespace kn on kn.oid operator(pg_catalog.=) o.opcnamespace
        left join pg_catalog.pg_collation c on c.oid operator(pg_catalog.=) i.indcollation[place operator(pg_catalog.-) 1]
        left join pg_catalog.pg_namespace cn on cn.oid operator(pg_catalog.=) c.collnamespace
      ) key
      where i.indisunique or i.indisexclusion or i.indpred is not null or i.indexprs is not null or not key.is_of_postgres
    ) i
    group by i.schema, i.definition
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
      case when k.condeferrable then 'deferrable' end, case when not k.convalidated then 'not valid' end,
      case when (pg_catalog.to_jsonb(k) operator(pg_catalog.->>) 'conenforced') operator(pg_catalog.=) 'false' then 'not enforced' end)
    from relation r join pg_catalog.pg_constraint k on k.conrelid operator(pg_catalog.=) r.oid
    where k.contype operator(pg_catalog.<>) 'n'
  union all
  select r.schema, pg_catalog.concat_ws(' ', 'foreign key', k.conname, 'of', pg_catalog.concat(n.nspname, '.', f.relname), 'to', r.name)
    from relation r join pg_catalog.pg_constraint k on k.confrelid operator(pg_catalog.=) r.oid
    join pg_catalog.pg_class f on f.oid operator(pg_catalog.=) k.conrelid
    join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) f.relnamespace
    where f.relnamespace operator(pg_catalog.<>) all (array(select own.oid from own))
  union all
  select r.schema, pg_catalog.concat_ws(' ', 'trigger', t.tgname, 'on', r.name, t.tgenabled, t.tgtype,
      pg_catalog.concat(n.nspname, '.', f.proname), nullif(t.tgattr::pg_catalog.text, ''),
      case when t.tgqual is not null then pg_catalog.concat('when ',
        pg_catalog.substring(pg_catalog.pg_get_triggerdef(t.oid), ' WHEN (.*) EXECUTE FUNCTION ')) end,
      nullif(pg_catalog.encode(t.tgargs, 'hex'), ''),
      case when t.tgoldtable is not null then pg_catalog.concat('old ', t.tgoldtable) end,
      case when t.tgnewtable is not null then pg_catalog.concat('new ', t.tgnewtable) end,
      case when t.tgdeferrable then 'deferrable' end, case when t.tginitdeferred then 'deferred' end)
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
  select searched.nspname, pg_catalog.concat_ws(' ', 'function',
      pg_catalog.concat(searched.nspname, '.', f.proname, '(', pg_catalog.oidvectortypes(f.proargtypes), ')'),
      f.proargnames::pg_catalog.text, f.proargmodes::pg_catalog.text,
      nullif(pg_catalog.array_to_string(array(select pg_catalog.format_type(type, null)
        from pg_catalog.unnest(f.proallargtypes) with ordinality as argument (type, place) order by argument.place), ', '), ''),
      pg_catalog.pg_get_expr(f.proargdefaults, 0),
      'returns', case when f.proretset then 'set of' end, pg_catalog.format_type(f.prorettype, null), l.lanname, f.prokind,
      f.provolatile, case when f.proisstrict then 'strict' end,
      case when f.prosecdef then 'security definer' end, f.proconfig::pg_catalog.text,
      pg_catalog.md5(pg_catalog.concat(f.prosrc, f.probin, f.prosqlbody)))
    from searched join pg_catalog.pg_proc f on f.pronamespace operator(pg_catalog.=) searched.oid
    join pg_catalog.pg_language l on l.oid operator(pg_catalog.=) f.prolang
    where not exists (select from of_extension e
      where e.classid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass and e.objid operator(pg_catalog.=) f.oid)
  union all
  select searched.nspname, pg_catalog.concat_ws(' ', 'operator', pg_catalog.concat(searched.nspname, '.', o.oprname))
    from searched join pg_catalog.pg_operator o on o.oprnamespace operator(pg_catalog.=) searched.oid
    where not exists (select from of_extension e
      where e.classid operator(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass and e.objid operator(pg_catalog.=) o.oid)
  union all
  select own.nspname, pg_catalog.concat_ws(' ', 'type', pg_catalog.concat(own.nspname, '.', t.typname), t.typtype)
    from own join pg_catalog.pg_type t on t.typnamespace operator(pg_catalog.=) own.oid
    where t.typtype operator(pg_catalog.<>) 'c' and t.typcategory operator(pg_catalog.<>) 'A'
  union all
  select null, pg_catalog.concat_ws(' ', 'cast', pg_catalog.format_type(c.castsource, null), 'as',
      pg_catalog.format_type(c.casttarget, null), c.castcontext, c.castmethod)
    from pg_catalog.pg_cast c
    where c.oid operator(pg_catalog.>=) 16384::pg_catalog.oid and not exists (select from of_extension e
      where e.classid operator(pg_catalog.=) 'pg_catalog.pg_cast'::pg_catalog.regclass and e.objid operator(pg_catalog.=) c.oid)
  union all
  select null, pg_catalog.concat_ws(' ', 'event trigger', e.evtname, e.evtevent, e.evtenabled)
    from pg_catalog.pg_event_trigger e
  union all
  select null, pg_catalog.concat_ws(' ', 'setting', setting)
    from pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) as setting
    where s.setdatabase operator(pg_catalog.=) any (array[0::pg_catalog.oid,
        (select d.oid from pg_catalog.pg_database d where d.datname operator(pg_catalog.=) pg_catalog.current_database())])
      and (setting operator(pg_catalog.~) '^(search_path|session_replication_role|.*preload_libraries)='
        or s.setrole operator(pg_catalog.=) any (array(select 0::pg_catalog.oid union all select role.oid from role))
          and setting operator(pg_catalog.!~) '^(log_|pgaudit[.]|auto_explain[.]|work_mem=|maintenance_work_mem=)')`;

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

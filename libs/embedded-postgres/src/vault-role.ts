import { VaultClient } from '@token-vault/postgres';
import type pg from 'pg';
import {
  movePassword,
  newPassword,
  type PasswordDirectory,
  passwordFiles,
  readPassword,
  writePassword,
} from './passwords.ts';
import { StartError } from './start-error.ts';

export const superuser = 'postgres';

/** The role of the vault. It owns its database and is no superuser: its SQL reads no file of the host and runs no program (ADR 52). */
export const vaultRole = 'vault';

export const database = 'postgres';

/** A running cluster, as its supervisor reaches it. */
export interface RunningCluster extends PasswordDirectory {
  readonly socketDirectory: string;
  readonly port: number;
}

/**
 * Makes the role of the vault, or takes a database over that the superuser owns: older releases gave the vault the superuser. A start that
 * is killed here repeats all of it at the next start. Afterwards the superuser has a password that no vault has had.
 * @returns the password of the role
 * @throws StartError
 */
export async function prepareVaultRole(cluster: RunningCluster): Promise<string> {
  try {
    const client = await connectAsSuperuser(cluster);
    try {
      return await prepare(client, cluster);
    } finally {
      await client.end();
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(`the vault's role in the database could not be prepared: ${reason}`, {
      cause: error,
    });
  }
}

async function prepare(client: pg.Client, cluster: RunningCluster): Promise<string> {
  const kept = await readPassword(cluster.directory, passwordFiles.vault);
  const state = await stateOf(client);
  if (kept !== undefined && state.isOwner && state.foreign.length === 0) return kept;
  await changeSuperuserPassword(client, cluster);
  const password = kept ?? newPassword();
  await client.query(takeOver(state, client.escapeLiteral(password)));
  // Last. So where the file is, the role has its password.
  await writePassword(cluster, passwordFiles.vault, password);
  return password;
}

async function connectAsSuperuser(cluster: RunningCluster): Promise<pg.Client> {
  const { directory } = cluster;
  const password = await readPassword(directory, passwordFiles.superuser);
  try {
    return await connect(cluster, password);
  } catch (error) {
    const next = await readPassword(directory, passwordFiles.nextSuperuser);
    if ((error as { code?: string }).code !== wrongPassword || next === undefined) throw error;
    const client = await connect(cluster, next);
    await movePassword(cluster, passwordFiles.nextSuperuser, passwordFiles.superuser);
    return client;
  }
}

const wrongPassword = '28P01';

async function connect(cluster: RunningCluster, password: string | undefined): Promise<pg.Client> {
  const client = new VaultClient({
    host: cluster.socketDirectory,
    port: cluster.port,
    user: superuser,
    password,
    database,
    ssl: false,
    application_name: 'vault supervisor',
    options: '-c synchronous_commit=on',
  });
  client.on('error', () => {});
  await client.connect();
  return client;
}

interface RoleState {
  readonly exists: boolean;
  readonly isOwner: boolean;
  /** What the superuser owns beside the catalogs, each as in `alter … owner to`. */
  readonly foreign: readonly string[];
}

/**
 * Objects of `initdb` have lower numbers than 16384. Schemas for temporary objects belong to the superuser by nature, as do the members of
 * extensions. A sequence of a column follows its table.
 */
const stateStatement = `
with schemas as (
  select oid, nspname, nspowner from pg_namespace where nspname !~ '^pg_'
), members as (
  select classid, objid from pg_depend where deptype = 'e'
), foreign_objects (class, oid, owner, name) as (
  select 'pg_namespace'::regclass, oid, nspowner, format('schema %I', nspname) from schemas
  union all
  select 'pg_class'::regclass, c.oid, relowner, format('table %s', c.oid::regclass)
  from pg_class c join schemas s on s.oid = relnamespace
  where relkind = any('{r,p,v,m,f,S}') and not (relkind = 'S' and exists (
    select from pg_depend where classid = 'pg_class'::regclass and objid = c.oid and deptype = any('{a,i}')
      and refobjsubid > 0))
  union all
  select 'pg_proc'::regclass, p.oid, proowner, format('routine %s', p.oid::regprocedure)
  from pg_proc p join schemas s on s.oid = pronamespace
  union all
  select 'pg_type'::regclass, t.oid, typowner, format('type %s', t.oid::regtype)
  from pg_type t join schemas s on s.oid = typnamespace left join pg_class c on c.oid = typrelid
  where typtype = any('{e,d,r}') or c.relkind = 'c'
)
select exists (select from pg_roles where rolname = $1) as exists,
  (select pg_get_userbyid(datdba) = $1 from pg_database where datname = current_database()) as "isOwner",
  array(
    select name from foreign_objects f
    where owner = $2::regrole and oid >= 16384 and (class, oid) not in (select classid, objid from members)
  ) as foreign`;

async function stateOf(client: pg.Client): Promise<RoleState> {
  const { rows } = await client.query<RoleState>(stateStatement, [vaultRole, superuser]);
  return rows[0] ?? { exists: false, isOwner: false, foreign: [] };
}

/** Several statements without parameters are one transaction. `reassign owned` refuses the first superuser of a cluster. */
function takeOver({ exists, foreign }: RoleState, password: string): string {
  const rights = 'login nosuperuser nocreatedb nocreaterole noreplication nobypassrls';
  return [
    ...(exists ? [] : [`create role ${vaultRole}`]),
    `alter role ${vaultRole} with ${rights} password ${password}`,
    ...foreign.map((object) => `alter ${object} owner to ${vaultRole}`),
    `alter database ${database} owner to ${vaultRole}`,
  ].join(';\n');
}

/** Before Postgres takes the new password, it is on the disk. */
async function changeSuperuserPassword(client: pg.Client, cluster: RunningCluster): Promise<void> {
  const password = newPassword();
  await writePassword(cluster, passwordFiles.nextSuperuser, password);
  await client.query(`alter role ${superuser} password ${client.escapeLiteral(password)}`);
  await movePassword(cluster, passwordFiles.nextSuperuser, passwordFiles.superuser);
}

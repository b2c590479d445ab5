import { execFileSync, spawn } from 'node:child_process';
import { cp, chmod, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createTestPool, superuserUrl, waitUntil } from '@token-vault/test-support';
import { type EmbeddedPostgres, runningPostgres, startEmbeddedPostgres } from '../src/index.ts';
import { processIdentity } from '../src/processes.ts';

const settings = { fsync: false };

let directory: string;
let dataDir: string;
let running: EmbeddedPostgres[] = [];

async function run(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const pool = createTestPool(url, { max: 1 });
  return pool
    .query<Record<string, unknown>>(sql)
    .then(({ rows }) => rows)
    .finally(() => pool.end());
}

async function start(): Promise<EmbeddedPostgres> {
  const postgres = await startEmbeddedPostgres({ dataDir, settings });
  running.push(postgres);
  return postgres;
}

const inCluster = (name: string): string => path.join(dataDir, 'cluster', name);
const passwordIn = async (name: string): Promise<string> => (await readFile(inCluster(name), 'utf8')).trim();

/** What older releases made, as the superuser: an object of each kind that has an owner. */
const olderObjects = `
  create schema older;
  create table older.parent (id serial, made bigint generated always as identity, at int) partition by range (at);
  create table older.part partition of older.parent for values from (0) to (10);
  create sequence older."own Sequence";
  create function older.one(numeric(5, 2)) returns int language sql as 'select 1';
  create procedure older.two() language sql as 'select 1';
  create aggregate older.total(int) (sfunc = int4pl, stype = int);
  create type older.mood as enum ('good');
  create type older.pair as (one int, two older.mood);
  create type older.span as range (subtype = int4);
  create domain older.small as int;
  create view older.shown as select id from older.parent;
  create materialized view older.kept as select 1 as n;
  create unlogged table public."a ""table""" (mood older.mood);
  create temporary table passing (id int);
  insert into older.parent (at) values (1), (2)`;

/** Makes the stopped directory one of an older release, whose vault is the superuser. Gives the password of the two. */
async function makeOlder(more = ''): Promise<string> {
  const postgres = await startEmbeddedPostgres({ dataDir, settings });
  const url = await superuserUrl(dataDir);
  const back = 'alter database postgres owner to postgres; drop role vault';
  await run(url, `${olderObjects}; ${more}; ${back}`);
  await postgres.stop();
  await rm(inCluster('vault-password'));
  return passwordIn('password');
}

const ownersStatement = `
  select distinct pg_get_userbyid(owner) as owner from (
    select nspowner as owner from pg_namespace where nspname = 'older'
    union all select datdba from pg_database where datname = current_database()
    union all select relowner from pg_class where relnamespace in ('older'::regnamespace, 'public'::regnamespace)
    union all select proowner from pg_proc where pronamespace = 'older'::regnamespace
    union all select typowner from pg_type where typnamespace = 'older'::regnamespace and typtype <> 'm') o`;

async function expectTakenOver(postgres: EmbeddedPostgres, formerPassword: string): Promise<void> {
  expect(await run(postgres.url, ownersStatement)).toEqual([{ owner: 'vault' }]);
  expect(await run(postgres.url, 'select array_agg(at) as at from older.parent')).toEqual([{ at: [1, 2] }]);
  const url = new URL(await superuserUrl(dataDir));
  expect(await run(url.href, 'select rolsuper from pg_roles where rolname = current_user')).toEqual([
    { rolsuper: true },
  ]);
  url.searchParams.set('password', formerPassword);
  await expect(run(url.href, 'select 1')).rejects.toThrow('password authentication failed');
}

/** Erasure depends on it. Without the right, Postgres skips the table with a warning. */
async function expectStatisticsRewritten(url: string): Promise<void> {
  const file = `select pg_relation_filenode('pg_statistic') as file`;
  const [before] = await run(url, file);
  await run(url, 'vacuum full pg_catalog.pg_statistic');
  expect(await run(url, file)).not.toEqual([before]);
}

/** A vault in a process of its own, which a test kills during its start. */
function startingVault() {
  const module = path.resolve(import.meta.dirname, '../src/index.ts');
  const code = `const { startEmbeddedPostgres } = await import(${JSON.stringify(module)});
    await startEmbeddedPostgres(${JSON.stringify({ dataDir, settings })});`;
  return spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: 'inherit' });
}

let template: string;
beforeAll(async () => {
  template = await mkdtemp(path.join(tmpdir(), 'vault-role-template-'));
  await chmod(template, 0o711);
  dataDir = template;
  const postgres = await startEmbeddedPostgres({ dataDir, settings });
  await postgres.stop();
});
afterAll(() => rm(template, { recursive: true, force: true }));

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'vault-role-'));
  await chmod(directory, 0o711);
  dataDir = path.join(directory, 'postgres');
  execFileSync('cp', ['-Rp', template, dataDir]);
});
afterEach(async () => {
  await Promise.all(running.map((postgres) => postgres.stop()));
  running = [];
  await rm(directory, { recursive: true, force: true });
});

describe('SQL of the vault', () => {
  it('reads no file of the host, runs no program, changes no setting and no role', async () => {
    const { url } = await start();
    const refused = [
      `select pg_read_file('/etc/hostname')`,
      `select pg_ls_dir('.')`,
      `select lo_import('/etc/passwd')`,
      'create temporary table t (line text)',
      `copy pg_temp.t from '/etc/passwd'`,
      `copy (select 1) to program 'id'`,
      `copy (select 1) to '/tmp/q'`,
      `alter system set archive_command = 'id'`,
      `set dynamic_library_path = '/tmp'`,
      `create function f(cstring) returns int language c as 'libc.so.6', 'system'`,
      'create extension file_fdw',
      'create extension pg_trgm',
      'create role other',
      'alter role vault superuser',
      'grant pg_read_server_files to vault',
      'set role postgres',
      'create database other',
      'select rolpassword from pg_authid',
    ];
    const allowed: string[] = [];
    for (const sql of refused)
      await run(url, sql).then(
        () => allowed.push(sql),
        (error: unknown) => expect((error as Error).message).toMatch(/permission denied|is not available/),
      );
    expect(allowed).toEqual(['create temporary table t (line text)']);
  });

  it('is of a role whose password lies beside that of the superuser, for the account of Postgres', async () => {
    const { url } = await start();
    expect(new URL(url).searchParams.get('password')).toBe(await passwordIn('vault-password'));
    expect(await passwordIn('password')).not.toBe(await passwordIn('vault-password'));
    const [own, other] = await Promise.all(
      ['vault-password', 'password'].map((name) => stat(inCluster(name))),
    );
    expect([own?.mode, own?.uid]).toEqual([other?.mode, other?.uid]);
    expect((own?.mode ?? 0) & 0o777).toBe(0o600);
    expect(await runningPostgres(dataDir)).toEqual({ kind: 'supervised', url });
  });
});

describe('a directory of an older release', () => {
  it('is taken over with its data, and its superuser gets another password; later starts change nothing', async () => {
    const former = await makeOlder();
    const first = await start();
    await expectTakenOver(first, former);
    await expectStatisticsRewritten(first.url);
    await run(first.url, 'alter table older.parent add column later int; drop table public."a ""table"""');
    const passwords = await Promise.all(['password', 'vault-password'].map(passwordIn));
    await first.stop();
    expect((await start()).url).toBe(first.url);
    expect(await Promise.all(['password', 'vault-password'].map(passwordIn))).toEqual(passwords);
  });

  it('is taken over again after a start of the older release, with what that one made', async () => {
    const former = await makeOlder();
    await (await start()).stop();
    const between = await startEmbeddedPostgres({ dataDir, settings });
    await run(await superuserUrl(dataDir), 'create table older.again as select 1 as n');
    await between.stop();
    await expectTakenOver(await start(), former);
  });

  it('is taken over by the next start when one is killed half-way', async () => {
    const gate = path.join(directory, 'gate');
    await writeFile(gate, '');
    const former = await makeOlder(`
      create function older.wait() returns event_trigger language plpgsql as $$ begin
        while current_user = 'postgres' and (pg_stat_file('${gate}', true)).size is not null loop perform pg_sleep(0.01); end loop;
      end $$;
      create event trigger waits on ddl_command_start when tag in ('ALTER TYPE') execute function older.wait()`);
    const vault = startingVault();
    onTestFinished(() => void vault.kill('SIGKILL'));
    const isHalfWay = async () => {
      const waits = `select from pg_stat_activity where wait_event = 'PgSleep'`;
      return (await run(await superuserUrl(dataDir), waits).catch(() => [])).length > 0;
    };
    await waitUntil(isHalfWay, { what: 'the change of an owner' });
    const postmaster = Number((await readFile(inCluster('data/postmaster.pid'), 'utf8')).split('\n')[0]);
    expect(await run(await superuserUrl(dataDir), `select from pg_roles where rolname = 'vault'`)).toEqual(
      [],
    );
    vault.kill('SIGKILL');
    await waitUntil(async () => (await processIdentity(postmaster)) === undefined, { what: 'its end' });
    await rm(gate);
    await expectTakenOver(await start(), former);
  });

  it.each([
    ['before Postgres takes it', false],
    ['after Postgres took it', true],
  ])('is taken over when the change of the superuser’s password ended %s', async (_when, isTaken) => {
    const former = await makeOlder();
    await cp(inCluster('password'), inCluster('next-password'), { preserveTimestamps: true });
    await writeFile(inCluster(isTaken ? 'password' : 'next-password'), 'another\n');
    execFileSync('chown', ['-R', '--reference', inCluster('data'), dataDir]);
    await expectTakenOver(await start(), former);
  });

  it('is taken over when the role was made and its password not yet kept', async () => {
    await (await start()).stop();
    await rename(inCluster('vault-password'), path.join(directory, 'lost'));
    expect(await run((await start()).url, 'select 1 as n')).toEqual([{ n: 1 }]);
  });
});

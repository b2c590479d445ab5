import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Planted } from './canaries.ts';
import type { Flocks } from './journey.ts';
import type { World } from './world.ts';

/** A command that was given a number as argument. */
interface Given {
  readonly own: Planted;
  readonly code: number | null;
  readonly text: string;
}

export interface Commanded {
  readonly given: readonly Given[];
  /** The output of each other command. */
  readonly outputs: ReadonlyMap<string, string>;
  /** The directory with an export and a backup. */
  readonly directory: string;
}

/** Commands of an operator with a card number in every argument that accepts text. */
function badCommands(tenant: string, file: string): ((number: string) => readonly string[])[] {
  const application = (name: string, type: string, permission: string) => [
    ...['applications', 'create', '--tenant', tenant, '--name', name, '--type', type],
    ...['--permission', permission],
  ];
  return [
    (number) => ['tenants', 'create', number.repeat(20)],
    (number) => ['tenants', 'create', 'x', '--plan', number],
    (number) => ['tenants', 'set-plan', number, 'enterprise'],
    (number) => application(number, 'private', number),
    (number) => application(number, number, 'token:read'),
    (number) => ['applications', 'create', '--tenant', number, '--name', 'x', '--type', 'private'],
    (number) => [
      'export',
      tenant,
      '--recipient',
      file,
      '--application',
      `key_pvt_${number}`,
      '--to',
      `${file}.out`,
    ],
    (number) => ['export', tenant, '--recipient', number, '--application', tenant, '--to', number],
    (number) => ['import', tenant, file, '--identity', `/nowhere/${number}`],
    (number) => ['import', tenant, `/nowhere/${number}`, '--identity', file],
    (number) => ['projections', 'verify', number],
    (number) => ['projections', 'rebuild', number],
    (number) => ['projections', 'pause', number],
    (number) => ['keys', 'rotate-tenant', number],
    (number) => ['audit', 'verify', '--from', number],
    (number) => ['audit', 'export', '--tenant', number],
    (number) => ['erasure', 'certificate', number],
    (number) => ['erasure', 'verify', file, '--public-key', number],
    (number) => ['backup', 'restore', `/nowhere/${number}`],
    (number) => [number, number],
  ];
}

/** Commands that succeed, and repeats of some of them. */
const goodCommands = (own: string, other: string, application: string, directory: string): string[][] => {
  const [key, sealed] = [path.join(directory, 'key'), path.join(directory, 'export')];
  const importing = ['import', other, sealed, '--identity', key];
  return [
    ['transfer', 'keygen', key],
    ['export', own, '--recipient', `${key}.pub`, '--application', application, '--to', sealed],
    importing,
    importing,
    ['import', own, sealed, '--identity', key],
    ['audit', 'export', '--tenant', own],
    ['audit', 'export', '--tenant', other, '--format', 'csv'],
    ['tenants', 'list', '--json'],
    ['projections', 'status', '--json'],
    ['projections', 'verify', '--all'],
    ['backup', 'create', path.join(directory, 'backup')],
  ];
};

export async function byCommands(world: World, { hidden }: Flocks): Promise<Commanded> {
  const directory = await mkdtemp(path.join(tmpdir(), 'token-vault-canary-'));
  const file = path.join(directory, 'bad');
  const tenantOf = async (key: string | null) =>
    (await world.clientWithoutKey.expect<{ id: string }>(200, 'GET', '/tenants/self', { key })).body.id;
  const own = await tenantOf(world.keys.management);
  const other = await tenantOf(world.keys['management of another tenant']);
  const outputs = new Map<string, string>();
  const given: Given[] = [];
  const run = async (name: string, args: readonly string[]) => {
    const { stdout, stderr } = await world.command(...args);
    outputs.set(`${name}, ${outputs.size}`, stdout + stderr);
  };
  const where = { operation: 'vault', entrance: 'the command line', caller: 'an operator' };
  await writeFile(file, `{"data": "${hidden.plant({ ...where, place: 'a file' }).number}`);
  for (const write of badCommands(own, file)) {
    const own = hidden.plant({ ...where, place: write('number').join(' ') });
    const { code, stdout, stderr } = await world.command(...write(own.number));
    given.push({ own, code, text: stdout + stderr });
  }
  const key = world.keys.revealing;
  for (const place of ['body.data', 'body.data, again']) {
    const { number } = hidden.plant({ ...where, operation: 'createToken', place });
    await world.clientWithoutKey.expect(201, 'POST', '/tokens', {
      key,
      body: { type: 'card', data: { number } },
    });
  }
  for (const args of goodCommands(own, other, world.applicationIds.revealing, directory))
    await run(`output of vault ${args.slice(0, 2).join(' ')}`, args);
  return { outputs, given, directory };
}

import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { Application, Reactor, Token } from '@token-vault/contracts';
import {
  cardToken,
  type Client,
  createClient,
  createDataDirectory,
  plainApplication,
  printed,
  removeDataDirectory,
  revealingApplication,
  runCommand,
  type StandaloneProcess,
  startStandaloneProcess,
  type TestStack,
} from '@token-vault/test-support';
import { openSession } from '../../world/sessions.ts';
import { type Gateway, startGateway } from '@token-vault/deploy/running-gateway';

type Holder = Application & { readonly key: string };

/** A vault with callers of every kind. */
export interface World {
  readonly vault: StandaloneProcess;
  readonly dataDir: string;
  /** A client without a key. */
  readonly clientWithoutKey: Client;
  readonly keys: Readonly<Record<CallerName, string | null>>;
  readonly ids: { readonly token: string; readonly victim: string; readonly reactor: string };
  /** Reactors that call `svc` as their arguments say, as their application. */
  readonly askers: Readonly<Record<Asker, string>>;
  readonly receiverUrl: string;
  /** All text that the receiver of webhooks and spans got. */
  received(): string;
  spans(): string;
  /** All files of nginx. Empty without a gateway. */
  gatewayFiles(): string;
  make(body: object): Promise<Holder>;
  /** Makes a reactor that calls `svc` as its arguments say, as this application. */
  makeAsker(applicationId: string): Promise<string>;
  /** The ids of the callers' applications. */
  readonly applicationIds: Readonly<Record<Asker, string>>;
  command(...args: string[]): ReturnType<typeof runCommand>;
  close(): Promise<void>;
}

export const callerNames = [
  'without a key',
  'an unknown key',
  'a regenerated key',
  'a deleted application',
  'an expired application',
  'a session that is not authorised',
  'a session that has expired',
  'a session',
  'public',
  'private',
  'revealing',
  'management',
  'another tenant',
  'management of another tenant',
] as const;
export type CallerName = (typeof callerNames)[number];
type Asker = 'revealing' | 'public' | 'a deleted application' | 'an expired application';

const everyTokenPermission = [
  'token:create',
  'token:read',
  'token:update',
  'token:delete',
  'token:search',
  'token:use',
];

/** Gives the statuses of the answers, in the order of the calls. */
const askingCode = `module.exports = async ({ args: { calls }, svc }) => {
  const statuses = [];
  for (const { method, values } of JSON.parse(calls.replaceAll('<<', '{{'))) {
    const call = method.split('.').reduce((at, name) => at[name], svc);
    statuses.push(await call(...values).then(() => 200, (error) => error.status ?? 0));
  }
  return { raw: { statuses } };
};`;

const listingCode = `module.exports = ({ svc }) => {
  const namesOf = (at, path) => Object.entries(at).flatMap(([name, value]) =>
    typeof value === 'function' ? [path + name] : namesOf(value, path + name + '.'));
  return { raw: { names: namesOf(svc, '') } };
};`;

async function startListener(): Promise<{ url: string; received: () => string; server: Server }> {
  let received = '';
  const server = createServer((request, response) => {
    received += `${request.url} ${JSON.stringify(request.headers)}\n`;
    request.setEncoding('utf8').on('data', (text: string) => (received += text));
    request.on('end', () => response.setHeader('content-type', 'application/json').end('{}'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, received: () => received, server };
}

const soon = (): string => new Date(Date.now() + 2_500).toISOString();

/** A session whose rights `authoriser` grants. Gives its key. */
async function makeSession(opener: Client, authoriser: Client, grant: object): Promise<string> {
  const { nonce, key } = await openSession(opener);
  const body = { nonce, permissions: ['token:create', 'token:read'], ...grant };
  await authoriser.expect(200, 'POST', '/sessions/authorize', { body });
  return key;
}

/** Starts a real nginx, configured as for deployment, in front of the processes of a stack. */
async function startGatewayOf(dataDir: string): Promise<Gateway> {
  const text = await readFile(path.join(dataDir, 'stack.json'), 'utf8');
  const processes = JSON.parse(text) as { name: string; port?: number }[];
  const serversOf = (kind: string) =>
    processes
      .filter(({ name, port }) => name.startsWith(kind) && port !== undefined)
      .map(({ port }) => `127.0.0.1:${port}`);
  return startGateway({
    commandServers: serversOf('command-service'),
    queryServers: serversOf('query-service'),
    proxyServers: serversOf('proxy'),
  });
}

export interface WorldOptions {
  readonly stack?: TestStack;
  /** All requests go through nginx. Needs a stack of processes. */
  readonly hasGateway?: boolean;
}

export async function openWorld({ stack, hasGateway = false }: WorldOptions = {}): Promise<World> {
  const webhooks = await startListener();
  const collector = await startListener();
  const dataDir = await createDataDirectory();
  const env = {
    // The most detailed log level.
    VAULT_LOG_LEVEL: 'debug',
    VAULT_EGRESS_ALLOW: '127.0.0.0/8',
    VAULT_AUTH_FAILURES_PER_MINUTE: '0',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  };
  const vault = await startStandaloneProcess({ dataDir, env, ...(stack && { stack }) });
  const eventStore: Record<string, string> = vault.eventStoreUrl
    ? { EVENT_STORE: 'eventstoredb', EVENTSTOREDB_URL: vault.eventStoreUrl }
    : {};
  const command = (...args: string[]) => runCommand(dataDir, args, eventStore);
  const otherTenant = command('tenants', 'create', 'other', '--plan', 'standard');

  const managementKey = vault.credentials.management_key;
  const gateway = hasGateway ? await startGatewayOf(dataDir) : undefined;
  const client = (key: string) =>
    gateway ? createClient(`http://127.0.0.1:${gateway.port}`, key) : vault.client(key);
  const manager = client(managementKey);
  const clientWithoutKey = client('none');
  const make = async (body: object, by = manager) =>
    (await by.expect<Holder>(201, 'POST', '/applications', { body })).body;
  const proxy_destinations = new URL(webhooks.url).origin;
  const everything = { name: 'tenant', settings: { data_misses_per_minute: '0', proxy_destinations } };
  await manager.expect(200, 'PUT', '/tenants/self', { body: everything });

  const grantEverything = [
    { priority: 1, container: '/', transform: 'reveal', permissions: everyTokenPermission },
  ];
  const revealing = await make(revealingApplication('/', { rules: grantEverything }));
  const collecting = { name: 'p', type: 'public', permissions: ['token:create', 'token:update'] };
  const open = await make(collecting);
  const plain = await make(plainApplication());
  const regenerated = await make(plainApplication());
  const deleted = await make(plainApplication());
  const victim = await make(plainApplication());
  await manager.expect(200, 'POST', `/applications/${regenerated.id}/regenerate`);

  const otherManagementKey = printed((await otherTenant).stdout, 'management key');
  const other = await make(plainApplication(), clientWithoutKey.withKey(otherManagementKey));
  const expired = await make({ ...plainApplication(), expires_at: soon() });
  const makeAsker = async (applicationId: string) => {
    const body = { name: 'r', code: askingCode, configuration: {}, application: { id: applicationId } };
    return (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
  };
  const askers = {
    'an expired application': await makeAsker(expired.id),
    'a deleted application': await makeAsker(deleted.id),
    revealing: await makeAsker(revealing.id),
    public: await makeAsker(open.id),
  };
  await manager.expect(204, 'DELETE', `/applications/${deleted.id}`);

  const revealer = clientWithoutKey.withKey(revealing.key);
  const opener = clientWithoutKey.withKey(open.key);
  const token = await revealer.expect<Token>(201, 'POST', '/tokens', { body: cardToken() });
  const sessions = {
    'a session that is not authorised': (await openSession(opener)).key,
    'a session that has expired': await makeSession(opener, revealer, { expires_at: soon() }),
    'a session': await makeSession(opener, revealer, {}),
  };
  // The vault has the clock of the machine, so the session ends in real time.
  const until = Date.parse(soon());
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, until - Date.now())));

  return {
    vault,
    dataDir,
    clientWithoutKey,
    make,
    command,
    makeAsker,
    askers,
    applicationIds: {
      'an expired application': expired.id,
      'a deleted application': deleted.id,
      revealing: revealing.id,
      public: open.id,
    },
    receiverUrl: webhooks.url,
    received: webhooks.received,
    spans: collector.received,
    gatewayFiles: () => gateway?.files() ?? '',
    ids: { token: token.body.id, victim: victim.id, reactor: askers.revealing },
    keys: {
      ...sessions,
      'without a key': null,
      'an unknown key': 'key_pvt_thisisnotthekeyofanyone1',
      'a regenerated key': regenerated.key,
      'a deleted application': deleted.key,
      'an expired application': expired.key,
      public: open.key,
      private: plain.key,
      revealing: revealing.key,
      management: managementKey,
      'another tenant': other.key,
      'management of another tenant': otherManagementKey,
    },
    async close() {
      await gateway?.stop();
      await removeDataDirectory(dataDir);
      for (const { server } of [webhooks, collector]) {
        server.closeAllConnections();
        server.close();
      }
    },
  };
}

/** The methods that code finds in `svc`. */
export async function availableSvcMethods({ clientWithoutKey, keys, ids }: World): Promise<string[]> {
  const manager = clientWithoutKey.withKey(keys.management ?? '');
  const { application } = (await manager.expect<Reactor>(200, 'GET', `/reactors/${ids.reactor}`)).body;
  const body = { name: 'lists', code: listingCode, configuration: {}, application: { id: application?.id } };
  const { id } = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body;
  const path = `/reactors/${id}/react`;
  const options = { key: keys.revealing, body: {} };
  return (await clientWithoutKey.expect<{ raw: { names: string[] } }>(200, 'POST', path, options)).body.raw
    .names;
}

import { eventRegistry, newId, streams, type Transform, type VaultEvent } from '@token-vault/contracts';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { cardNumber, type Client, type StandaloneProcess } from '@token-vault/test-support';

/** The content of a vault with made-up data. Its keys are for a console session that may do everything. */
export interface Demo {
  readonly managementKey: string;
  /** Of the application `backend`, which sees masked data. */
  readonly privateKey: string;
  readonly applicationIds: Readonly<Record<string, string>>;
  readonly tokenIds: readonly string[];
}

interface DemoSize {
  readonly tokens: number;
  /** The number of made-up reads for each hour. */
  readonly days: number;
}

const allPermissions = ['create', 'read', 'update', 'delete', 'search', 'use'].map((verb) => `token:${verb}`);
const rule = (priority: number, container: string, transform: string, more: object = {}) => ({
  priority,
  container,
  transform,
  permissions: ['token:read', 'token:search'],
  ...more,
});
const applications = {
  backend: { permissions: allPermissions },
  settlement: { rules: [rule(1, '/pci/', 'reveal', { description: 'card data for the acquirer' })] },
  'support desk': { rules: [rule(1, '/', 'mask', { description: 'last four digits' })] },
  'fraud checks': {
    rules: [
      rule(1, '/pci/high/', 'reveal', { description: 'numbers of cards', reason: 'required' }),
      rule(2, '/pii/', 'redact', { description: 'that a person is known, and no more' }),
    ],
  },
};

/** Fills a fresh vault: applications, tokens and a reactor over HTTP, and reads of the past as events of the log. */
export async function fillDemo(vault: StandaloneProcess, { tokens, days }: DemoSize): Promise<Demo> {
  const admin = vault.client();
  const made = new Map<string, { id: string; key: string }>();
  for (const [name, granted] of Object.entries(applications)) {
    const body = { name, type: 'private', ...granted };
    made.set(
      name,
      (await admin.expect<{ id: string; key: string }>(201, 'POST', '/applications', { body })).body,
    );
  }
  await admin.expect(201, 'POST', '/applications', {
    body: { name: 'checkout page', type: 'public', permissions: ['token:create'] },
  });
  const backend = made.get('backend');
  if (backend === undefined) throw new Error('no application was made');
  await admin.expect(201, 'POST', '/reactors', {
    body: { name: 'greet', code: greeting, configuration: { TONE: 'calm' }, application: { id: backend.id } },
  });
  const tokenIds = await makeTokens(vault.client(backend.key), tokens);
  const applicationIds = Object.fromEntries([...made].map(([name, { id }]) => [name, id]));
  await addPast(vault, { applicationIds, tokenIds }, days);
  return {
    managementKey: vault.credentials.management_key,
    privateKey: backend.key,
    applicationIds,
    tokenIds,
  };
}

const greeting = `module.exports = async function (req) {
  return { raw: { hello: req.args.name ?? 'world', tone: req.configuration.TONE } };
};
`;

const kinds = [
  () => ({ type: 'card', data: { number: cardNumber(), expiration_month: 12, expiration_year: 2040 } }),
  (index: number) => ({ type: 'social_security_number', data: `123-45-${String(1000 + (index % 9000))}` }),
  (index: number) => ({ type: 'token', data: { note: index }, containers: ['/general/high/'] }),
];

const batchSize = 1000;

async function makeTokens(client: Client, count: number): Promise<string[]> {
  const starts = Array.from({ length: Math.ceil(count / batchSize) }, (_, index) => index * batchSize);
  const makeBatch = async (start: number): Promise<string[]> => {
    const tokens = Array.from({ length: Math.min(batchSize, count - start) }, (_, index) => ({
      ...kinds[index % kinds.length]?.(index),
      metadata: { customer: `c-${index % 97}` },
    }));
    const sent = { body: { tokens } };
    const { body } = await client.expect<{ results: { token: { id: string } }[] }>(
      200,
      'POST',
      '/tokens/batch',
      sent,
    );
    return body.results.map(({ token }) => token.id);
  };
  const ids: string[] = [];
  // Two at a time: one is sealed while the other is stored.
  for (let index = 0; index < starts.length; index += 2)
    ids.push(...(await Promise.all(starts.slice(index, index + 2).map(makeBatch))).flat());
  return ids;
}

const hourMs = 3_600_000;
const readers = [
  { name: 'settlement', transform: 'reveal', most: 6 },
  { name: 'fraud checks', transform: 'reveal', most: 2 },
  { name: 'support desk', transform: 'mask', most: 9 },
] as const;

/** Made-up reads, more by day than by night. The same reads each time. */
async function addPast(
  vault: StandaloneProcess,
  { applicationIds, tokenIds }: Pick<Demo, 'applicationIds' | 'tokenIds'>,
  days: number,
): Promise<void> {
  const store = createPostgresEventStore({
    registry: eventRegistry,
    connection: { connectionString: await vault.databaseUrl() },
  });
  const tenantId = vault.credentials.tenant_id;
  const byDay = new Map<string, VaultEvent[]>();
  const now = Date.now();
  const hours = Array.from({ length: days * 24 - 1 }, (_, index) => now - (days * 24 - index) * hourMs);
  const minutes = Array.from({ length: 58 }, (_, index) => now - (59 - index) * (hourMs / 60));
  for (const [hour, time] of [...hours, ...minutes].entries()) {
    const at = new Date(time);
    const light =
      hour < hours.length ? Math.max(0, Math.sin(((at.getUTCHours() - 6) / 24) * 2 * Math.PI)) : 0.6;
    for (const [index, { name, transform, most }] of readers.entries()) {
      const count = Math.round(most * light * (0.4 + ((hour * 7 + index * 3) % 10) / 10));
      if (count === 0) continue;
      const tokens = Array.from({ length: count }, (_, each) => ({
        token_id: tokenIds[(hour * 31 + each * 3) % tokenIds.length] ?? '',
        token_type: 'card',
        transform,
      }));
      const day = at.toISOString().slice(0, 10);
      byDay.set(day, [
        ...(byDay.get(day) ?? []),
        readEvent(tenantId, applicationIds[name] ?? '', at, tokens),
      ]);
    }
  }
  for (const [day, events] of byDay) await store.append(streams.access(tenantId, day), events, 'any');
  await store.close();
}

interface ReadToken {
  readonly token_id: string;
  readonly token_type: string;
  readonly transform: Transform;
}

function readEvent(tenantId: string, applicationId: string, at: Date, tokens: ReadToken[]): VaultEvent {
  const trace = newId().replaceAll('-', '');
  return {
    id: newId(),
    type: 'TokensRead',
    version: eventRegistry.versionOf('TokensRead'),
    data: { operation: 'read', tokens },
    metadata: {
      tenant_id: tenantId,
      actor: { kind: 'application', id: applicationId },
      trace_id: trace,
      correlation_id: trace,
      occurred_at: at.toISOString(),
      request: 'getToken',
    },
  };
}

import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import type { Principal } from '@token-vault/access';
import { eventRegistry, type VaultEvent } from '@token-vault/contracts';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { startPosition, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import { createApp, finishApp, listen, type AppDependencies } from '../src/index.ts';
import { createAuditTrail, type Handlers } from '@token-vault/operations';
import { createLogger } from '@token-vault/observability';
import type { Authentication } from '@token-vault/authentication';
import type { ProjectionProgress } from '@token-vault/read-models';

export const tenantId = '11111111-1111-4111-8111-111111111111';
export const applicationId = '22222222-2222-4222-8222-222222222222';

export function principalWith(change: Partial<Principal> = {}): Principal {
  return {
    tenant: { id: tenantId, plan: 'standard', settings: {} },
    actor: { kind: 'application', id: applicationId },
    applicationId,
    applicationType: 'private',
    permissions: ['token:create', 'token:read', 'token:update'],
    rules: [],
    ...change,
  };
}

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body of a JSON answer. */
  readonly body: Record<string, unknown>;
}

export interface Sending {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  /** Objects are sent as JSON. */
  readonly body?: unknown;
}

/** Sends the path unchanged: fetch would normalise the paths under test. */
export function send(port: number, path: string, sending: Sending = {}): Promise<Reply> {
  const { method = 'GET', headers = {}, body } = sending;
  const bytes =
    body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port, host: '127.0.0.1', path, method, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        const isJson = response.headers['content-type']?.includes('json') ?? false;
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          body: (isJson && text ? JSON.parse(text) : {}) as Record<string, unknown>,
        });
      });
    });
    request.on('error', reject);
    request.end(bytes);
  });
}

export interface TinyApp {
  readonly port: number;
  readonly store: EventStore;
  /** Lines of the log so far. */
  readonly lines: Record<string, unknown>[];
  readonly send: (path: string, sending?: Sending) => Promise<Reply>;
  /** The recorded events, oldest first. */
  events(): Promise<RecordedEvent[]>;
  stop(): Promise<void>;
}

export interface TinyOptions {
  readonly handlers?: Handlers;
  readonly authentications?: Readonly<Record<string, Authentication>>;
  readonly waitFor?: ProjectionProgress['waitFor'];
  readonly append?: (append: () => Promise<unknown>) => Promise<unknown>;
  readonly dependencies?: Partial<AppDependencies>;
  readonly onForget?: () => void;
}

export const goodKey = 'key_pvt_good000000000000000000';

/** The HTTP edge with handlers of the test, over real HTTP; callers come from a table. */
export async function startTinyApp(options: TinyOptions = {}): Promise<TinyApp> {
  const store = createMemoryEventStore({ registry: eventRegistry });
  const { append } = options;
  const watched: EventStore = append
    ? {
        ...store,
        append: (stream: string, events: readonly VaultEvent[], expected) =>
          append(() => store.append(stream, events, expected)) as ReturnType<EventStore['append']>,
      }
    : store;
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as never) };
  const logger = createLogger({ service: 'test', level: 'debug', destination });
  const known: Readonly<Record<string, Authentication>> = {
    [goodKey]: { kind: 'authenticated', principal: principalWith(), keyHash: 'good' },
    ...options.authentications,
  };
  const app = createApp({
    handlers: options.handlers ?? {},
    authenticator: {
      authenticate: async (key) => known[key] ?? { kind: 'unknown' },
      authenticateConsole: async (secret) => known[secret] ?? { kind: 'unknown' },
      forget: () => options.onForget?.(),
    },
    audit: createAuditTrail(watched),
    progress: {
      waitFor: options.waitFor ?? (async () => true),
      reach: options.waitFor ?? (async () => true),
      recovered: async () => true,
      losses: 0,
      read: async () => undefined,
      close: async () => {},
    },
    watch: { requireMoving: async () => {} },
    revocations: { confirm: async () => 'as usual' },
    storage: { requireSpace: () => undefined },
    clock: { now: () => new Date('2030-01-01T00:00:00Z') },
    logger,
    ...options.dependencies,
  });
  finishApp(app, logger);
  const server = await listen(app, { host: '127.0.0.1', port: 0 });
  return {
    port: server.port,
    store,
    lines,
    send: (path, sending = {}) =>
      send(server.port, path, { ...sending, headers: { 'SVC-API-KEY': goodKey, ...sending.headers } }),
    async events() {
      const events: RecordedEvent[] = [];
      for await (const event of store.readAll(startPosition)) events.push(event);
      return events;
    },
    stop: () => server.stop(1000),
  };
}

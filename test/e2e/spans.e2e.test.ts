import { operations } from '@token-vault/contracts';
import { openTelemetryIds } from '@token-vault/observability';
import { testStack, waitUntil } from '@token-vault/test-support';
import { createServer, type Server } from 'node:http';
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startVault, type RunningVault } from './running-vault.ts';

interface Received {
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status?: { readonly code?: number };
}

interface Payload {
  readonly resourceSpans: {
    readonly resource: { readonly attributes: { key: string; value: { stringValue: string } }[] };
    readonly scopeSpans: { readonly spans: Omit<Received, 'service'>[] }[];
  }[];
}

const cardNumber = '4242424242424242';
let collector: Server;
let vault: RunningVault;
let everything = '';
const received: Received[] = [];

/** Receives spans as a collector does: OTLP as JSON over HTTP. */
function receive(text: string): void {
  everything += text;
  for (const { resource, scopeSpans } of (JSON.parse(text) as Payload).resourceSpans) {
    const service = resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue ?? '';
    for (const { spans } of scopeSpans) received.push(...spans.map((span) => ({ ...span, service })));
  }
}

beforeAll(async () => {
  collector = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      expect(request.url).toBe('/v1/traces');
      receive(Buffer.concat(chunks).toString());
      response.setHeader('content-type', 'application/json').end('{}');
    });
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  const { port } = collector.address() as AddressInfo;
  vault = await startVault({ traces: { endpoint: `http://127.0.0.1:${port}/`, share: 1 } });
});
afterAll(async () => {
  await vault.stop();
  collector.close();
});

const namesOf = (traceId: string): string[] =>
  received.filter((span) => span.traceId === openTelemetryIds(traceId).trace).map(({ name }) => name);

it('a request can be followed through append, read models and run, in every process', async () => {
  const key = vault.managementKey;
  const { key: backend } = await vault.must<{ key: string }>(201, {
    method: 'POST',
    path: '/applications',
    key,
    body: { name: 'b', type: 'private', permissions: ['token:create', 'token:read', 'token:use'] },
  });
  const { id: reactor } = await vault.must<{ id: string }>(201, {
    method: 'POST',
    path: '/reactors',
    key,
    body: { name: 'r', configuration: {}, code: 'module.exports = async (req) => ({ raw: req.args });' },
  });
  const [made, ran, own] = [randomUUID(), randomUUID(), 'order-17'];
  const post = (path: string, traceId: string, body: unknown) =>
    vault.call({ method: 'POST', path, key: backend, body, headers: { 'SVC-TRACE-ID': traceId } });
  const token = await post('/tokens', made, { type: 'token', data: cardNumber });
  const { id } = token.body as { id: string };
  expect((await post(`/reactors/${reactor}/react`, ran, { args: { a: `{{ ${id} }}` } })).status).toBe(200);
  expect((await post('/tokens', own, { type: 'card', data: {} })).status).toBe(400);

  const ofMade = new Set(['createToken', 'append', 'project tokens', 'project log', 'project log_summary']);
  const readModels = ['invocations', 'runs', 'alerts', 'log', 'log_summary'].map((name) => `project ${name}`);
  const ofRan = new Set(['react', 'append', 'run reactor', ...readModels]);
  // Each part of the vault sends its spans at its own time.
  const has = (traceId: string, names: ReadonlySet<string>) => {
    const found = namesOf(traceId);
    return [...names].every((name) => found.includes(name));
  };
  const complete = () => has(made, ofMade) && has(ran, ofRan) && namesOf(own).length > 0;
  await waitUntil(complete, { timeoutMs: 20_000, what: 'the spans' });
  expect(new Set(namesOf(made))).toEqual(ofMade);
  expect(new Set(namesOf(ran))).toEqual(ofRan);

  for (const traceId of [made, ran, own]) {
    const ids = openTelemetryIds(traceId);
    const [root, ...others] = received
      .filter((span) => span.traceId === ids.trace)
      .toSorted((left, right) => Number(left.spanId !== ids.request) - Number(right.spanId !== ids.request));
    expect(root).toMatchObject({ spanId: ids.request });
    expect(root?.parentSpanId ?? '').toBe('');
    expect(Object.keys(operations)).toContain(root?.name);
    for (const span of others) {
      expect(span).toMatchObject({ parentSpanId: ids.request });
      expect(BigInt(span.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(span.startTimeUnixNano));
    }
  }
  const services = new Set(received.map(({ service }) => service));
  const processes = ['command-service', 'projectors', 'reactor-runner'];
  const expected = testStack === 'standalone' ? ['standalone'] : processes;
  for (const service of expected) expect(services).toContain(`token-vault-${service}`);
  expect(everything).not.toContain(cardNumber);
});

import type { Expressions } from '@token-vault/expressions';
import { createApplicationReplay, createTokenReplay } from '@token-vault/command-service';
import { createOpenApiDocument, isReadModelName } from '@token-vault/contracts';
import type { KeyRing } from '@token-vault/crypto';
import { readProjectionStatus } from '@token-vault/projectors';
import {
  createApp,
  finishApp,
  mountConsole,
  mountHealth,
  mountMetrics,
  mountReference,
  observeRequests,
  type AnsweredRequest,
  type ConsoleFiles,
  type HealthCheck,
  type ProxyKeys,
  type RequestObserver,
} from '@token-vault/http';
import { createAuditTrail, systemClock, type AuditTrail, type Handlers } from '@token-vault/operations';
import { createEntityFinder } from '@token-vault/read-models';
import type { Span } from '@token-vault/observability';
import express, { type Express } from 'express';
import { openPool, type ReadModels, type ProcessContext } from './data.ts';
import { openEdge, type Edge, type EdgeOptions } from './edge.ts';
import type { LimitConfig } from './limits.ts';
import { actorFinder } from './reactors/principals.ts';
import { release } from './release.ts';

/** The parts of a service that answers requests, besides its handlers. */
export interface ServiceParts extends ReadModels {
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
  readonly edge: Edge;
}

export async function openServiceParts(
  context: ProcessContext,
  parts: ReadModels & { readonly keyRing: KeyRing },
  limits: LimitConfig & Pick<EdgeOptions, 'isAlone'>,
): Promise<ServiceParts> {
  const { settings, logger, closers } = context;
  const writePool = openPool(context, 'idempotency', 4);
  const options = { ...limits, databaseUrl: settings.databaseUrl, writePool, logger, ...parts };
  const edge = closers.addConnection(await openEdge(options), (it) => it.close());
  return { ...parts, edge, audit: createAuditTrail(parts.store) };
}

/** The parts that must answer before this process may get requests. */
export function readinessOf({
  store,
  readPool,
}: Pick<ServiceParts, 'store' | 'readPool'>): Readonly<Record<string, HealthCheck>> {
  return {
    event_store: async () => void (await store.head()),
    projections: async () => {
      const shown = (await readProjectionStatus(readPool))
        .filter(({ name }) => isReadModelName(name))
        .map(({ name, version, status, position }) => ({ name, version, status, position }));
      if (shown.length === 0 || shown.some(({ status }) => status !== 'live'))
        throw new Error('not all are live');
      return shown;
    },
  };
}

/** The app of a process without operations. */
export function createHealthApp(
  { logger, metrics, closers }: ProcessContext,
  checks: Readonly<Record<string, HealthCheck>>,
): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  closers.addConnection(mountHealth(app, checks, logger), (it) => it.close());
  mountMetrics(app, metrics);
  finishApp(app, logger);
  return app;
}

function spanOf({ operation, status, seconds, traceId }: AnsweredRequest): Span {
  const endMs = Date.now();
  const attributes = { 'vault.operation': operation, 'http.response.status_code': status };
  const startMs = endMs - seconds * 1000;
  return { name: operation, traceId, isRoot: true, startMs, endMs, isFailed: status >= 500, attributes };
}

/** The app of a service: its operations, health, metrics, and the OpenAPI document. */
export function createServiceApp(
  { logger, metrics, spans, storage, closers }: ProcessContext,
  parts: ServiceParts & {
    readonly expressions: Expressions;
    readonly proxyKeys?: ProxyKeys | undefined;
    /** Given where the pages of the console are shown. */
    readonly consoleFiles?: () => Promise<ConsoleFiles>;
  },
  handlers: Handlers,
): Express {
  const { edge, audit, progress, watch, revocations } = parts;
  const observe = observeRequests(metrics);
  const onAnswered: RequestObserver = (request) => {
    observe(request);
    if (spans.isOn) spans.record(spanOf(request));
  };
  const findEntity = createEntityFinder(parts.readPool);
  const readModels = { progress, watch, revocations };
  const clock = systemClock;
  const tokenReplay = createTokenReplay({ ...parts, clock, findActor: actorFinder(parts) });
  const applicationReplay = createApplicationReplay({ ...parts, clock });
  const replays = { tokenReplay, applicationReplay };
  const executed = { ...readModels, storage, handlers, audit, clock, ...replays, findEntity };
  const { proxyKeys } = parts;
  const app = createApp({ ...edge, ...executed, proxyKeys, logger, onAnswered });
  closers.addConnection(mountHealth(app, readinessOf(parts), logger), (it) => it.close());
  mountMetrics(app, metrics);
  mountReference(app, () => createOpenApiDocument({ serverUrl: '/', version: release }));
  if (parts.consoleFiles) mountConsole(app, parts.consoleFiles);
  finishApp(app, logger);
  return app;
}

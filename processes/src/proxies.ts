import { createProxyFinder, createSeenTokens, createTokenUse } from '@token-vault/command-service';
import { ForbiddenError } from '@token-vault/contracts';
import { createEgressBroker } from '@token-vault/egress';
import { observeProxyRequests } from '@token-vault/observability';
import { createProxyHandlers } from '@token-vault/proxy';
import { createAuditTrail, systemClock, type HandlersOf } from '@token-vault/operations';
import { rawBodyLimitBytes, type ProxyKeys } from '@token-vault/http';
import type { ProcessContext } from './data.ts';
import type { Edge } from './edge.ts';
import { guessesOf, type HandlerParts } from './handlers.ts';
import { createProxyKeys } from './proxy-callers.ts';
import { createProxyCode } from './proxy-code.ts';
import { openReactorOperations } from './reactors/operations-of-process.ts';
import type { ReactorParts } from './reactors/parts.ts';
import { createPrincipals } from './reactors/principals.ts';

export interface ProxyParts extends HandlerParts {
  readonly edge: Pick<Edge, 'keyUses'>;
  readonly reactors: Pick<ReactorParts, 'sandbox'>;
  /** They answer the requests of the code of proxies. */
  readonly handlers: HandlersOf<'command'> & HandlersOf<'query'>;
}

/** Requests to other servers, with data in place of tokens. */
export function openProxy(
  context: ProcessContext,
  parts: ProxyParts,
  { egressAllow: allowCidrs }: { readonly egressAllow: readonly string[] },
): { readonly handlers: HandlersOf<'proxy'>; readonly proxyKeys: ProxyKeys } {
  const { closers, logger, metrics } = context;
  const { store, keyRing, expressions, readPool: pool, watch, reactors, edge } = parts;
  const { keyUses } = edge;
  const clock = systemClock;
  const limits = { maxRequestBytes: rawBodyLimitBytes, maxResponseBytes: rawBodyLimitBytes };
  const tokenUse = createTokenUse({ store, keyRing, clock });
  const egress = createEgressBroker({ allowCidrs, ...limits });
  const ofCode = closers.add(createEgressBroker({ allowCidrs }), (it) => it.close());
  const audit = createAuditTrail(store);
  const principals = createPrincipals({ pool, store, keyRing, clock, watch });
  const findApplication: typeof principals.application = (...asked) => principals.application(...asked);
  const findActor: typeof principals.byActor = (...asked) => principals.byActor(...asked);
  const decisionOnSeen = createSeenTokens({ store, keyRing, clock, audit, findActor });
  const findProxy = createProxyFinder({ store, keyRing });
  const operations = openReactorOperations(context, parts, principals);
  const proxy = createProxyHandlers({
    store,
    audit,
    clock,
    expressions,
    logger,
    observe: observeProxyRequests(metrics),
    guess: guessesOf(parts),
    send: egress.send,
    takeTokens: (...taken) => tokenUse.take(...taken),
    checkTokens: (references, asked, madeAt) => tokenUse.checkTaken(references, madeAt, asked.now, asked),
    decisionOnUse: (tokenIds, asked) => tokenUse.decisionOn(tokenIds, asked.now, asked),
    useNamed: (...named) => tokenUse.useNamed(...named),
    findProxy: async (tenantId, id) => usable(tenantId, await findProxy(tenantId, id), findApplication),
    runCode: createProxyCode(audit, { sandbox: reactors.sandbox, fetch: ofCode.fetch, operations }),
    areThere: (tokens, asked) => tokenUse.areThere(tokens, asked.now, asked),
    decisionOnSeen: (tokens, asked) => decisionOnSeen(tokens, asked.now, asked),
  });
  closers.add(proxy, (it) => it.close());
  // Closed before the proxy waits for its records, so that the requests under way end.
  closers.add(egress, (it) => it.close());
  return {
    handlers: proxy.handlers,
    proxyKeys: createProxyKeys({ pool, findProxy, findApplication, clock, keyUses, watch }),
  };
}

/** @throws ForbiddenError when its code would act for an application that is gone */
async function usable(
  tenantId: string,
  {
    details,
    settingsRevision: revision,
    configuration,
  }: Awaited<ReturnType<ReturnType<typeof createProxyFinder>>>,
  findApplication: ReturnType<typeof createPrincipals>['application'],
) {
  const { applicationId, requestCode, responseCode } = details;
  const hasCode = requestCode !== undefined || responseCode !== undefined;
  if (hasCode && applicationId !== undefined && !(await findApplication(tenantId, applicationId)))
    throw new ForbiddenError('The application of the proxy is gone, so its code does not run.', {
      type: 'proxy',
      id: details.id,
    });
  return { ...details, revision, configuration };
}

import { createTokenUse } from '@token-vault/command-service';
import { createEgressBroker } from '@token-vault/egress';
import { createProxyHandlers } from '@token-vault/proxy';
import { createAuditTrail, systemClock, type HandlersOf } from '@token-vault/operations';
import { rawBodyLimitBytes } from '@token-vault/http';
import type { ProcessContext } from './data.ts';
import { guess, type HandlerParts } from './handlers.ts';

/** Requests to other servers, with data in place of tokens. */
export function openProxy(
  { closers, logger }: ProcessContext,
  { store, keyRing, expressions }: Pick<HandlerParts, 'store' | 'keyRing' | 'expressions'>,
  { egressAllow: allowCidrs }: { readonly egressAllow: readonly string[] },
): HandlersOf<'proxy'> {
  const limits = { maxRequestBytes: rawBodyLimitBytes, maxResponseBytes: rawBodyLimitBytes };
  const tokenUse = createTokenUse({ store, keyRing, clock: systemClock });
  const egress = createEgressBroker({ allowCidrs, ...limits });
  const proxy = createProxyHandlers({
    audit: createAuditTrail(store),
    expressions,
    logger,
    guess,
    send: egress.send,
    takeTokens: (references, context) => tokenUse.take(references, context),
    checkTokens: (references, context) => tokenUse.check(references, context),
    refuseUse: (tokenIds, context) => tokenUse.refusal(tokenIds, context),
  });
  closers.add(proxy, (it) => it.close());
  // Closed before the records are awaited: what is still under way ends by it.
  closers.add(egress, (it) => it.close());
  return proxy.handlers;
}

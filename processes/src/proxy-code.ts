import { DomainError, ForbiddenError, reactorProblemCode } from '@token-vault/contracts';
import type { EgressFetch } from '@token-vault/egress';
import { CustomAnswerError, mayFetch, type CodeRun, type RunCode } from '@token-vault/proxy';
import { runCode, SeenTokens, type Code, type CodeDependencies } from '@token-vault/reactor-runner';
import { recordDeniedStep, systemClock, type AuditTrail, type RequestContext } from '@token-vault/operations';

/** As synchronous runs of reactors (rules.md §10). */
const timeoutMs = 10_000;

/**
 * Code of a proxy may send requests only where its list and that of the tenant allow it, by the rights of that moment. Redirects could
 * lead elsewhere.
 */
const fetchOf =
  (fetch: EgressFetch, { proxy }: CodeRun, context: RequestContext): EgressFetch =>
  async (request) => {
    const url = URL.parse(request.url);
    const permit = async () => {
      const headers = await request.permit?.();
      const { principal } = (await context.renewed()) ?? context;
      if (!url || !mayFetch(proxy, url, principal))
        throw new Error('the destination is not among those of the proxy');
      return headers;
    };
    // Before names are looked up, and again when the connection is there.
    await permit();
    return fetch({ ...request, redirect: request.redirect === 'manual' ? 'manual' : 'error', permit });
  };

/** No answer would name the tokens of a request, so its code has `req.svc.tokenize` alone. */
function writerOf({ part, proxy: { applicationId } }: CodeRun): Code['writer'] {
  if (part === 'request')
    return new DomainError('reactor_failed', 'The output of a transform of the proxy cannot be sent.', {
      errors: { 'request.tokenize': ['is for code of the response; use req.svc.tokenize'] },
    });
  if (applicationId === undefined)
    return new ForbiddenError('Without an application the code cannot make tokens.');
  return { applicationId };
}

/** Runs the transforms of proxies in the sandbox of reactors. */
export function createProxyCode(audit: AuditTrail, dependencies: CodeDependencies): RunCode {
  return async (run, context) => {
    const { proxy, exchangeId } = run;
    const seen = new SeenTokens();
    const { applicationId } = proxy;
    const { metadata, refusals } = context;
    const code = { type: 'proxy', id: proxy.id } as const;
    const { applicationId: caller } = context.principal;
    const end = await runCode(
      {
        ...dependencies,
        sandbox: {
          run: (request) => dependencies.sandbox.run({ ...request, caller, runId: exchangeId }),
        },
        fetch: fetchOf(dependencies.fetch, run, context),
      },
      {
        code: run.code,
        ...run.args,
        configuration: await proxy.configuration(),
        applicationId,
        timeoutMs,
        origin: {
          tenantId: context.principal.tenant.id,
          invocationId: exchangeId,
          traceId: context.traceId,
          reason: context.principal.reason,
          parents: run.parents,
          beganAtMs: performance.now(),
          requireActing: run.requireActing,
          requireSendable: run.requireSendable,
          refusals,
          recordRefusal: (refusal) =>
            recordDeniedStep(audit, { metadata, code, refusals, now: systemClock.now() }, refusal),
          useNamed: run.useNamed,
          guess: run.guess,
          onDeleted: run.onDeleted,
          onTokens(tokens, areAll) {
            seen.add(tokens, areAll);
            const { isComplete, cvcEndsAt } = seen;
            run.onSeen({ tokens: seen.tokens, isComplete, cvcEndsAt: cvcEndsAt?.toISOString() });
          },
        },
        writer: writerOf(run),
        signal: run.signal,
      },
    );
    if (end.kind === 'succeeded') return { raw: end.raw, tokens: end.tokens };
    const { status, reason, problem } = end;
    const { detail, errors, custom } = problem;
    if (custom) throw new CustomAnswerError({ status, headers: custom.headers, body: custom.body });
    throw new DomainError(reactorProblemCode(status, reason), detail, { errors });
  };
}
